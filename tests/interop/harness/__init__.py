"""What the interoperability tests are made of: processes, peers, clients and the span model they are compared in.

Knows nothing of Weir's insides: Weir is a binary, a manifest, ports and a log.
"""
