"""Pages in protobuf, which the program in Go writes: its client library's, such as that does not write, and others by
chance."""

from collections import defaultdict

from .clients import GO_PAGES
from .pages import PROTOBUF, Page
from .process import Lab


def pages(lab: Lab, seed: int, count: int) -> dict[str, list[Page]]:
    """By the names of what they are about."""
    directory = lab.directory / "go"
    directory.mkdir()
    program = lab.start("pages-go", [GO_PAGES, directory, str(seed), str(count)])
    assert program.wait_exit() == 0, program.log_text()
    found: dict[str, list[Page]] = defaultdict(list)
    for file in sorted(directory.iterdir()):
        found[file.stem].append(Page(file.read_bytes(), PROTOBUF))
    return dict(found)
