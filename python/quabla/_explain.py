"""explain: what the caches of a function hold, and why each trace was made."""

from . import _core

__all__ = ["Explanation", "explain"]


class Explanation:
    """What explain() found; prints as text.

    .caches is a list with one dict for each chain of transforms: name, traces, evicted, max_traces and entries, the traces that are kept,
    most recently used first. An entry has signature, calls, trace_seconds, compile_seconds, nodes, workspace (bytes) and reason, which
    is None for the first trace.
    """

    def __init__(self, name, caches):
        self.name = name
        self.caches = caches

    def __repr__(self):
        lines = []
        for c in self.caches:
            lines.append(
                f"{c['name']}: {_count(c['traces'], 'trace')}, {c['evicted'] or 'none'} evicted (max_traces={c['max_traces']})"
            )
            for e in c["entries"]:
                lines.append(f"  {e['signature']}")
                lines.append(
                    f"    {_count(e['calls'], 'call')}; traced in {e['trace_seconds'] * 1e3:.2g} ms, compiled in"
                    f" {e['compile_seconds'] * 1e3:.2g} ms; {_count(e['nodes'], 'node')}, {e['workspace']} bytes of work"
                )
                lines.append(f"    traced because {e['reason'] or 'it was the first call'}")
        return "\n".join(lines) or f"{self.name}: never called outside a trace"


def _count(n, what):
    return f"{n} {what}{'s'[: n != 1]}"


def explain(f):
    """Why f was traced: its traces, how often each was called, what tracing and compiling took, and which argument had changed.

    f: what jit or another transform returned, or a plain function, for which every chain of transforms around it is listed. Prints
    as text; .caches holds the same as data. A function that is traced again and again shows here which argument to keep
    fixed: a shape, or a Python number that should be an array.

    >>> f = qb.jit(lambda x, scale: x * scale)
    >>> _ = f(qb.ones((2,)), 1.0), f(qb.ones((2,)), 2.0), f(qb.ones((2,)), 2.0)
    >>> [(e["signature"], e["calls"], e["reason"]) for e in qb.explain(f).caches[0]["entries"]]
    [('(float64[2], 2.0)', 2, 'scale was 1.0 and is 2.0'), ('(float64[2], 1.0)', 1, None)]
    """
    if not callable(f):
        raise TypeError(f"explain takes a function, not {f!r}")
    return Explanation(repr(f), _core._cache_info(f))
