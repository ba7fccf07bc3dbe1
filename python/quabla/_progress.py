"""Progress of long work: a bar on a terminal (tqdm, where it is installed), a plain line now and then elsewhere."""

import sys
import time


class Progress:
    """`with Progress(total) as bar: bar.update(n, loss)`. Shows the loss, steps per second and the time left."""

    def __init__(self, total, stream=None):
        self._total, self._stream = total, stream or sys.stderr
        self._done, self._start, self._shown = 0, time.perf_counter(), 0.0
        self._bar = self._make_bar()

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

    def update(self, n, loss):
        """n more steps are done, the last with this loss."""
        self._done += n
        if self._bar is not None:
            self._bar.set_postfix_str(f"loss {loss:.3e}", refresh=False)
            self._bar.update(n)
            return
        now = time.perf_counter() - self._start
        if self._done < self._total and now - self._shown < 2.0:
            return
        self._shown = now
        rate = self._done / now if now else 0.0
        left = (self._total - self._done) / rate if rate else 0.0
        print(
            f"step {self._done}/{self._total}  loss {loss:.3e}  {rate:.0f} steps/s  {left:.0f} s left",
            file=self._stream,
            flush=True,
        )
