"""Work in several threads at once."""

import threading


def together(n, work):
    """work(i) in n threads that start at once; the first exception is raised here."""
    gate, failed = threading.Barrier(n), []

    def run(i):
        try:
            gate.wait()
            work(i)
        except BaseException as e:  # noqa: B036  whatever it is, the test must see it
            failed.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failed:
        raise failed[0]
