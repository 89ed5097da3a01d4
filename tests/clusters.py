"""A Dask cluster of processes that a test may kill."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import distributed


class Cluster:
    """A scheduler and workers, each a process without a nanny: what is killed stays dead."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        self.scheduler = self._run("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        self.workers: list[subprocess.Popen[bytes]] = []

    def _run(self, program: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{program}", "--scheduler-file", str(self.file), *options]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def client(self) -> distributed.Client:
        deadline = time.monotonic() + 30
        while not self.file.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        return distributed.Client(scheduler_file=str(self.file), set_as_default=False)

    def add_workers(self, number: int, client: distributed.Client | None = None) -> None:
        options = ("--no-nanny", "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1")
        self.workers += [self._run("dask_worker", *options) for _ in range(number)]
        if client is not None:
            client.wait_for_workers(len(self.workers), timeout=30)

    def kill_workers(self, number: int) -> None:
        """SIGKILL: no goodbye, nothing handed over."""
        for worker in self.workers[:number]:
            worker.kill()
            worker.wait()
        del self.workers[:number]

    def kill_scheduler(self) -> None:
        self.scheduler.kill()
        self.scheduler.wait()

    def close(self) -> None:
        self.kill_workers(len(self.workers))
        self.kill_scheduler()
