"""Progress of long work: a bar on a terminal (tqdm, where it is installed), a plain line now and then elsewhere."""

import sys
import time


class Progress:
    """`with Progress(total) as bar: bar.update(n, loss, terms)`: the loss and its terms, steps per second, the time left.

    A total of None shows nothing.
    """

    def __init__(self, total, stream=None):
        self._total, self._stream = total, stream or sys.stderr
        self._done, self._start, self._shown = 0, time.perf_counter(), 0.0
        self._bar = None if total is None else self._make_bar()

    def _make_bar(self):
        if not self._stream.isatty():
            return None
        try:
            from tqdm import tqdm
        except ImportError:
            return None
        return tqdm(total=self._total, file=self._stream, unit="step", dynamic_ncols=True, leave=True)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self._bar is not None:
            self._bar.close()

    def update(self, n, loss, terms=None):
        """n more steps are done, the last with this loss, the sum of these terms."""
        if self._total is None:
            return
        self._done += n
        text = "  ".join([f"loss {loss:.3e}", *(f"{name} {value:.2e}" for name, value in (terms or {}).items())])
        if self._bar is not None:
            self._bar.set_postfix_str(text, refresh=False)
            self._bar.update(n)
            return
        now = time.perf_counter() - self._start
        if self._done < self._total and now - self._shown < 2.0:
            return
        self._shown = now
        rate = self._done / now if now else 0.0
        left = (self._total - self._done) / rate if rate else 0.0
        print(
            f"step {self._done}/{self._total}  {text}  {rate:.0f} steps/s  {left:.0f} s left",
            file=self._stream,
            flush=True,
        )
