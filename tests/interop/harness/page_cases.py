"""Pages by hand: every type in every format, what is odd, and what is broken."""

import time

from .pages import OPENMETRICS, TEXT, Page, openmetrics, text, utf8_text

_NOW_S = int(time.time())
_NOW_MS = _NOW_S * 1000

NUMBERS = """\
# HELP jobs_total Jobs, by "kind"\\nand with \\\\ and \\n.
# TYPE jobs_total counter
jobs_total{kind="a"} 5
jobs_total{kind="b",note="quote \\" slash \\\\ line \\n end",empty=""} 6.5e3
# TYPE temperature gauge
temperature -7.25
temperature{room="\u00e9\u4e2d\U0001f600"} +Inf
temperature{room="cold"} -Inf
temperature{room="none"} NaN
# TYPE some untyped
some{job="j",instance="i",le="1",quantile="2"} 1
without_a_word 0.30000000000000004
# HELP described Only described.
described{a="b"} 18446744073709551615
"""

DISTRIBUTIONS = """\
# HELP h What is measured.
# TYPE h histogram
h_bucket{x="1",le="0.5"} 1
h_bucket{x="1",le="1"} 3
h_bucket{x="1",le="+Inf"} 4
h_sum{x="1"} 2.5
h_count{x="1"} 4
h_bucket{x="2",le="0.5"} 0
h_bucket{x="2",le="1"} 0
h_bucket{x="2",le="+Inf"} 0
h_sum{x="2"} 0
h_count{x="2"} 0
# HELP s What is summed up.
# TYPE s summary
s{x="1",quantile="0.5"} 1.5
s{x="1",quantile="0.9"} NaN
s_sum{x="1"} 30
s_count{x="1"} 20
s_sum{x="2"} -1
s_count{x="2"} 2
"""

OPENMETRICS_TYPES = """\
# TYPE jobs_seconds counter
# UNIT jobs_seconds seconds
# HELP jobs_seconds How "long".\\n
jobs_seconds_total{kind="a"} 5
jobs_seconds_created{kind="a"} 1700000000.5
jobs_seconds_total{kind="b"} 6
jobs_seconds_created{kind="b"} 1700000001
# TYPE rate_bytes_per_second gauge
# UNIT rate_bytes_per_second bytes_per_second
rate_bytes_per_second 7
# TYPE power_parsecs gauge
# UNIT power_parsecs parsecs
power_parsecs 7
# TYPE u unknown
u{a="b"} 8
# TYPE build info
# HELP build What runs.
build_info{version="1"} 1
# TYPE feature stateset
feature{feature="a"} 1
feature{feature="b"} 0
# TYPE h histogram
# HELP h What is measured.
h_bucket{le="1.0"} 2
h_bucket{le="+Inf"} 3
h_count 3
h_sum 4.5
h_created 1700000002.25
# TYPE s summary
s{quantile="0.5"} 1
s_count 2
s_sum 3
s_created 1700000003
# TYPE g gaugehistogram
# HELP g What is there.
g_bucket{le="1.0"} 2
g_bucket{le="+Inf"} 3
g_gcount 3
g_gsum 4.5
"""

EXEMPLARS = f"""\
# TYPE c counter
c_total{{a="b"}} 5 # {{trace_id="0123456789abcdef0123456789abcdef",span_id="0123456789abcdef",x="y"}} 0.5 {_NOW_S}.25
c_total{{a="c"}} 5 # {{trace_id="0123456789abcdef",span_id="ab"}} 1
c_total{{a="d"}} 5 # {{Trace_ID="0123456789ABCDEF0123456789ABCDEF",span_id="abc"}} 1
c_total{{a="e"}} 5 # {{trace_id="no",span_id=""}} 1e3
c_total{{a="f"}} 5 {_NOW_S - 1}.5 # {{}} 1
# TYPE g gauge
g 5 # {{x="y"}} 1
# TYPE h histogram
h_bucket{{le="1.0"}} 2 # {{x="1"}} 0.7 {_NOW_S}
h_bucket{{le="+Inf"}} 3 # {{x="2"}} 7
h_count 3 # {{x="3"}} 8
h_sum 4.5
"""

UTF8_NAMES = """\
# HELP "http.requests" Requests.
# TYPE "http.requests" counter
{"http.requests","http.method"="GET",path="/"} 5
{"http.requests",path="/caf\u00e9"} 6
# TYPE "lat.ency" histogram
{"lat.ency_bucket",le="1"} 1
{"lat.ency_bucket",le="+Inf"} 2
{"lat.ency_sum"} 3
{"lat.ency_count"} 2
plain{"a.b"="c"} 1
{a="b","behind"} 1
"""

FOUR_SERIES = '# TYPE c counter\nc{x="1"} 5\nc{x="2"} 6\n# TYPE g gauge\ng 1\n'
MORE = '# TYPE c counter\nc{x="2"} 7\nc{x="3"} 1\n'
FIVE, SIX = '# TYPE c counter\nc 5\n', '# TYPE c counter\nc 6\n'
CREATED = "# TYPE c counter\nc_total 5\nc_created 1700000000\n"


def _lines_without(page: str, part: str) -> str:
    return "".join(line + "\n" for line in page.splitlines() if part not in line)


def _at(page: str, time: int) -> str:
    """The page with this time behind each sample."""
    lines = [line if line.startswith("#") else f"{line} {time}" for line in page.splitlines()]
    return "".join(line + "\n" for line in lines)


CASES: dict[str, list[Page]] = {
    "numbers": text(NUMBERS, NUMBERS.replace(" 5\n", " 7\n"), NUMBERS),
    "no content type": [Page(NUMBERS, None)],
    "histograms and summaries": text(DISTRIBUTIONS, DISTRIBUTIONS.replace(" 4\n", " 9\n"), DISTRIBUTIONS),
    "histograms of OpenMetrics": openmetrics(DISTRIBUTIONS.replace('"1"', '"1.0"'), DISTRIBUTIONS),
    "types of OpenMetrics": openmetrics(OPENMETRICS_TYPES, OPENMETRICS_TYPES.replace(" 3\n", " 4\n"), ""),
    "help of OpenMetrics": openmetrics('# HELP a  \\"quoted\\" \\\\ \n# TYPE a gauge\na 1\n'),
    "exemplars with escapes": openmetrics('# TYPE c counter\nc_total 1 # {a="\\"\\\\\\n"} 1\n'),
    "exemplars": openmetrics(EXEMPLARS, EXEMPLARS.replace(" 5 ", " 6 "), ""),
    "names in UTF-8": utf8_text(UTF8_NAMES, UTF8_NAMES, ""),
    "names in UTF-8 of OpenMetrics": openmetrics(UTF8_NAMES.replace('{"http.requests"', '{"http.requests_total"')),
    "series come and go": text(FOUR_SERIES, MORE, FOUR_SERIES, "\n", MORE, MORE),
    "histograms go": text(DISTRIBUTIONS, _lines_without(DISTRIBUTIONS, 'x="2"'), DISTRIBUTIONS, "\n", DISTRIBUTIONS),
    "everything of OpenMetrics goes": openmetrics(OPENMETRICS_TYPES, "", OPENMETRICS_TYPES),
    "failures": [*text(FOUR_SERIES), Page("oops", TEXT, 503), Page("oops", TEXT, 503), *text(FOUR_SERIES), *text(MORE)],
    "failure at first": [Page("", TEXT, 404), *text(FOUR_SERIES)],
    "an empty page at first": text("", FOUR_SERIES, "", "\n"),
    "counters fall": text(FIVE, SIX, FIVE, FIVE, SIX) + openmetrics(CREATED, CREATED.replace("5", "3")),
    "changed formats": [*text(FIVE), *openmetrics(CREATED)],
    "changed types": text("# TYPE a gauge\na 1\n", "# TYPE a counter\na 1\n"),
    "own times": text(
        f"# TYPE c counter\nc 5 {_NOW_MS}\nother 1\n# TYPE g gauge\ng 1 {_NOW_MS - 3000}\n",
        f"# TYPE c counter\nc 6 {_NOW_MS + 1}\nother 1\n",
        "other 1\n",
    ),
    "own times of histograms": text(_at(DISTRIBUTIONS, _NOW_MS), _at(DISTRIBUTIONS, _NOW_MS + 1), "other 1\n"),
    "own times of OpenMetrics": openmetrics(
        f"# TYPE c counter\nc_total 5 {_NOW_S}.125\n# TYPE g gauge\ng 7 {_NOW_S}.3729\n", ""
    ),
    "series twice": text('a{x="1"} 1\na{x="1"} 2\nb 1\na{x="1"} 2\n', 'a{x="1"} 5\na{x="1"} 6\nb 1\n'),
    "families in pieces": text(
        "# TYPE a counter\n# TYPE b gauge\n# HELP a The a.\na{x=\"1\"} 1\nb{x=\"1\"} 2\na{x=\"2\"} 3\nb{x=\"2\"} 4\n"
    ),
    "histograms in pieces": text(
        '# TYPE h histogram\nh_bucket{x="1",le="1"} 1\nh_bucket{x="2",le="1"} 2\nh_count{x="1"} 2\nh_sum{x="2"} 1\n'
        'h_count{x="2"} 4\nh_bucket{x="1",le="+Inf"} 2\nh_sum{x="1"} 1\nh_bucket{x="2",le="+Inf"} 4\n'
    ),
    "buckets in no order": text(
        '# TYPE h histogram\nh_bucket{le="2"} 3\nh_count 5\nh_bucket{le="1"} 1\nh_bucket{le="+Inf"} 5\n'
        'h_bucket{le="-1"} 0\nh_sum 1\n'
    ),
    "histograms without infinity": text(_lines_without(DISTRIBUTIONS, "+Inf")),
    "histograms without a sum": text(_lines_without(DISTRIBUTIONS, "_sum")),
    "histograms without buckets": text(_lines_without(DISTRIBUTIONS, "_bucket")),
    "histograms whose count is not their last bucket": text(DISTRIBUTIONS.replace('"+Inf"} 4', '"+Inf"} 5')),
    "spaces and comments": text(
        '\n# a comment\n#comment\n#\n  \n# TYPE a counter\n# TYPE\n# HELP\na\t{ x = "1" , }\t5\t\nb   6  \n'
        "\n# HELP c   far  \nc 1"
    ),
    "reserved names": text('up{a="b"} 5\n', 'scrape_samples_scraped{a="b"} 5\n'),
    "not UTF-8 in labels": [*text("a 1\n"), Page(b'b{x="\xff"} 1\n'), *text("a 1\n")],
    "not UTF-8 in help": [*text("a 1\n"), Page(b"# HELP b \xff\nb 1\n")],
    "no metrics": [Page("<html><body>1</body></html>\n", "text/html"), Page("<html>\n<p>one</p> 1\n</html>\n")],
}

# Each is refused as a whole, by both.
_BROKEN = {
    "no value": "a 1\nb\n",
    "a value that is no number": "a 1\nb x\n",
    "a value in hexadecimal": "a 0x1p3\n",
    "a value with underscores": "a 1_000\n",
    "a value that is too large": "a 1e400\n",
    "two values": "a 1 2 3\n",
    "a time that is no number": "a 1 x\n",
    "a time before all times": "a 1 -5\n",
    "a label without quotes": "a{b=c} 1\n",
    "a label without a value": "a{b} 1\n",
    "labels that do not end": 'a{b="c" 1\n',
    "a value that does not end": 'a{b="c} 1\n',
    "the same label twice": 'a{b="1",b="2"} 1\n',
    "a name that begins with a digit": "1a 1\n",
    "a name with a dot": "a.b 1\n",
    "a label that begins with a digit": 'a{1b="c"} 1\n',
    "no name": '{b="c"} 1\n',
    "two names": 'a{"b"} 1\n',
    "words": "Not found\n",
}

_BROKEN_OPENMETRICS = {
    "no end": "a 1\n",
    "half of a line": "a 1\nb{c=",
    "lines behind the end": "a 1\n# EOF\nb 1\n# EOF\n",
    "an exemplar without labels": "# TYPE a counter\na_total 1 # 5\n# EOF\n",
    "an exemplar that is no number": '# TYPE a counter\na_total 1 # {b="c"} x\n# EOF\n',
    "a time that is no number": "a 1 x\n# EOF\n",
    "a time without an end": "a 1 NaN\n# EOF\n",
}

for _name, _page in _BROKEN.items():
    CASES[f"broken: {_name}"] = [*text("good 1\n"), *text(_page), *text("good 2\n")]
for _name, _page in _BROKEN_OPENMETRICS.items():
    _good, _again = openmetrics("good 1\n", "good 2\n")
    CASES[f"broken OpenMetrics: {_name}"] = [_good, Page(_page, OPENMETRICS), _again]

# Labels that are not of the sample alone.
LABELS = {
    "target_info": text(
        'a 1\n# TYPE target_info gauge\ntarget_info{service_version="1",host_name="h",job="j",instance="i"} 1\nb 1\n',
        'a 1\ntarget_info{service_version="2"} 1\n',
        "a 1\n",
    ),
    "target_info of OpenMetrics": openmetrics(
        '# TYPE target info\ntarget_info{service_version="1"} 1\n# TYPE a gauge\na 1\n'
    ),
    "scopes": text(
        'a{otel_scope_name="s",otel_scope_version="1",otel_scope_schema_url="u",otel_scope_x="y",z="1"} 1\na{z="1"} 2\n'
        'a{otel_scope_name="t",z="1"} 3\n# TYPE h histogram\nh_bucket{otel_scope_name="s",le="1"} 1\n'
        'h_count{otel_scope_name="s"} 1\nh_sum{otel_scope_name="s"} 1\n',
        'a{otel_scope_name="t",z="1"} 4\n',
    ),
}

REFUSED = ["refused"]

# What docs/metrics-agent.md lists as differences: what the receiver says of the last page, and what Weir says.
DIFFERENT: dict[str, tuple[list[Page], list[str], list[str]]] = {
    "a time that is far ahead": (text(f"a 1 {_NOW_MS + 3_600_000}\nb 1\n"), ["gauge b 1"], ["gauge a 1", "gauge b 1"]),
    "quantiles alone": (text('# TYPE s summary\ns{quantile="0.5"} 7\n'), [], ["summary s count 0 [7]"]),
    "buckets alone": (text('# TYPE h histogram\nh_bucket{le="1"} 7\n'), [], ["histogram h count 7 [7, 0]"]),
    "buckets that fall": (
        text('# TYPE h histogram\nh_bucket{le="1"} 7\nh_bucket{le="2"} 6\nh_bucket{le="+Inf"} 7\nh_count 7\n'),
        ["histogram h count 7 [7, 18446744073709551615, 1]"],
        ["histogram h count 7 [7, 0, 1]"],
    ),
    "counts with fractions": (
        text('# TYPE h histogram\nh_bucket{le="1"} 0.6\nh_bucket{le="2"} 1.2\nh_bucket{le="+Inf"} 2\nh_count 2\n'),
        ["histogram h count 2 [0, 0, 0]"],
        ["histogram h count 2 [0, 1, 1]"],
    ),
    "a series twice with times": (text(f"a 1 {_NOW_MS}\na 2 {_NOW_MS}\n"), ["gauge a 2"], ["gauge a 1"]),
    "the name of a histogram alone": (text("# TYPE h histogram\nh 7\n"), [], ["gauge h 7"]),
    "labels in another order": (
        text('a{x="1",y="2"} 1\na{y="2",x="1"} 2\n'),
        ["gauge a{x=1,y=2} 2"],
        ["gauge a{x=1,y=2} 1", "gauge a{x=1,y=2} 2"],
    ),
    "the name of another family with an end": (
        text("# TYPE a gauge\na 1\na_sum 2\n"),
        ["gauge a 2"],
        ["gauge a 1", "gauge a_sum 2"],
    ),
    "types behind samples": (text("a 1\n# TYPE a counter\n"), ["gauge a 1"], ["sum a 1"]),
    "types that are gone": (text("# TYPE a counter\na 1\n", "a 1\n"), ["sum a 1"], ["gauge a 1"]),
    "long ids": (
        openmetrics('# TYPE a counter\na_total 1 # {span_id="0123456789abcdef01"} 1\n'),
        ["sum a_total 1 example span 0123456789abcdef"],
        ["sum a_total 1 example span_id=0123456789abcdef01"],
    ),
    "carriage returns": (text("a 1\r\n"), REFUSED, ["gauge a 1"]),
    "types that are not known": (text("# TYPE a what\na 1\n"), REFUSED, ["gauge a 1"]),
    "types of OpenMetrics in text": (text("# TYPE a info\na_info 1\n"), REFUSED, ["sum a 1"]),
    "exemplars in text": (text('a 1 # {x="y"} 1\n'), REFUSED, ["gauge a 1 example x=y"]),
    "units that are no ends": (openmetrics("# TYPE a gauge\n# UNIT a bytes\na 1\n"), REFUSED, ["gauge a 1"]),
    "spaces in OpenMetrics": (openmetrics("\n# comment\na  1\n"), REFUSED, ["gauge a 1"]),
    "attributes of scopes": (
        text('a{otel_scope_name="s"} 1\notel_scope_info{otel_scope_name="s",x="y"} 1\n'),
        ["gauge a 1", "gauge otel_scope_info{x=y} 1"],
        ["gauge a 1"],
    ),
    "nothing in OpenMetrics": ([Page("", OPENMETRICS)], [], REFUSED),
}
