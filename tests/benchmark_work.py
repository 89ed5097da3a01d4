"""Work for cells of tests: it runs in processes of its own, so it must be importable there."""

import os
import signal
import time
from pathlib import Path

from labelfable.errors import MissingExtraError, ModelError


def do(job):
    """Whatever the job asks for; each run leaves a line in the job's log."""
    with Path(job["log"]).open("a") as log:
        log.write(f"{job['name']} {os.getpid()}\n")
    return WAYS[job["way"]](job)


def sleep(job):
    time.sleep(job["seconds"])
    return {"value": 1}


def refuse(job):
    raise ModelError("these votes cannot be fitted", hint="Try others")


def lack(job):
    raise MissingExtraError("nothing is installed")


def die(job):
    os.kill(os.getpid(), signal.SIGKILL)


def square(job):
    return {"value": job["number"] ** 2}


def break_down(job):
    return {"value": job["no such thing"]}


def leave(job):
    os._exit(3)


WAYS = {
    "well": square,
    "refuse": refuse,
    "lack": lack,
    "break": break_down,
    "die": die,
    "leave": leave,
    "sleep": sleep,
}
