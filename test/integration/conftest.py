"""What all integration tests share: one cluster, a database for each test file, and a watchdog."""
from __future__ import annotations

import faulthandler
import os
import pathlib
import sys
import threading

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import pooler as pooler_module          # noqa: E402
from cluster import Cluster             # noqa: E402

TEST_SECONDS_MAX = 100.0


@pytest.fixture(scope="session")
def cluster():
    """The cluster that ctest started, or one of our own when pytest is run by hand."""
    state = os.environ.get("PGWEIR_TEST_CLUSTER")
    if state and os.path.exists(state):
        shared = Cluster.from_json(pathlib.Path(state).read_text())
        if shared.all_running():
            yield shared
            return
    own = Cluster.create()
    try:
        yield own
    finally:
        own.stop()


@pytest.fixture(scope="module")
def db(cluster, request):
    """A database of the test file's own, on all nodes; gone afterwards."""
    name = request.module.__name__
    cluster.primary.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    cluster.primary.execute(f"CREATE DATABASE {name} OWNER app")
    cluster.primary.execute("GRANT ALL ON SCHEMA public TO PUBLIC", name)
    cluster.wait_caught_up()
    yield name
    for replica in cluster.replicas:
        replica.execute("SELECT pg_wal_replay_resume()")
    cluster.primary.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture(scope="session", autouse=True)
def _binary():
    yield
    pooler_module.remove_binary()


@pytest.fixture(autouse=True)
def _watchdog():
    """A test that hangs is ended by ending its poolers: whoever waits for them gets an error, and the log is printed."""
    def bark() -> None:
        print(f"\nthis test has taken more than {TEST_SECONDS_MAX:.0f} s", file=sys.stderr)
        faulthandler.dump_traceback(file=sys.__stderr__)
        for pooler in list(pooler_module.living):
            print(pooler.log_tail(), file=sys.stderr)
            pooler.process.kill()
    timer = threading.Timer(TEST_SECONDS_MAX, bark)
    timer.daemon = True
    timer.start()
    yield
    timer.cancel()
