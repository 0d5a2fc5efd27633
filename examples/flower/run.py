"""Three SuperNodes and a SuperLink as processes on this machine: python run.py FOLDER, as `corank federated init` made it.

Needs `corank-federated[flower]` in an environment of its own, and its programs on the PATH. Without TLS, for a try on one machine;
on a network give SuperLink and SuperNodes certificates and node keys as Flower's documentation says.
"""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

APP = Path(__file__).parent
PORT = 8100
CONNECTION = f"""[superlink]
default = "local"

[superlink.local]
address = "127.0.0.1:{PORT}"
insecure = true
"""


def started(stack: ExitStack, home: Path, *words: str) -> None:
    """A process with a home and a log of its own, ended with the stack."""
    home.mkdir()
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    log = stack.enter_context((home / "log.txt").open("wb"))
    process = subprocess.Popen(
        words, env={**os.environ, **quiet, "FLWR_HOME": str(home)}, stdout=log, stderr=log
    )
    stack.callback(process.wait)
    stack.callback(process.terminate)


def main(folder: Path) -> int:
    """Run the rounds; every site's model is then in its folder."""
    sites = sorted(path.parent.name for path in folder.glob("*/site.toml"))
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        here = ("--insecure", "--host", "127.0.0.1", "--port")
        started(
            stack,
            place / "link",
            "flower-superlink",
            *here,
            str(PORT),
            "--disable-runtime-dependency-installation",
        )
        time.sleep(5)
        for number, name in enumerate(sites):
            settings = f'site="{(folder / name / "site.toml").resolve()}"'
            link = ("--superlink", f"127.0.0.1:{PORT}", "--node-config", settings)
            started(stack, place / name, "flower-supernode", *here, str(PORT + 10 + number), *link)
        (place / "link" / "config.toml").write_text(CONNECTION)
        settings = f'settings="{(folder / "coordinator/coordinator.toml").resolve()}"'
        words = ["flwr", "run", str(APP), "local", "--run-config", settings, "--stream"]
        begin = time.perf_counter()
        code = subprocess.run(
            words, env={**os.environ, "FLWR_HOME": str(place / "link")}, check=False
        ).returncode
        print(f"{time.perf_counter() - begin:.0f} s")
        for name in ("link", *sites):
            (folder / f"flower-{name}.log").write_bytes((place / name / "log.txt").read_bytes())
        return code


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
