"""An authority and certificates for one test run, made with the openssl program."""
from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

from cluster import give_away, make_folder


class Certificates:
    """A folder of NAME.crt and NAME.key, readable for the unprivileged user alone."""

    def __init__(self) -> None:
        self.folder = make_folder("pgweir-tls-")
        self.authority("ca")
        self.authority("other-ca")

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def crt(self, name: str) -> pathlib.Path:
        return self.folder / f"{name}.crt"

    def key(self, name: str) -> pathlib.Path:
        return self.folder / f"{name}.key"

    def authority(self, name: str) -> None:
        self._key(name)
        self._openssl("req", "-new", "-x509", "-key", self.key(name), "-out", self.crt(name), "-subj", f"/CN={name} of a test",
                      "-days", "2")
        self._hand_over(name)

    def issue(self, name: str, common_name: str = "localhost", alternatives: str = "", by: str = "ca", days: int = 2) -> str:
        """`days` below 1 makes one that has expired. Returns `name`."""
        self._key(name)
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        self._openssl("req", "-new", "-key", self.key(name), "-out", request, "-subj", f"/CN={common_name}")
        extensions.write_text(f"subjectAltName={alternatives}\n" if alternatives else "")
        self._openssl("x509", "-req", "-in", request, "-CA", self.crt(by), "-CAkey", self.key(by), "-CAcreateserial",
                      "-out", self.crt(name), "-extfile", extensions, "-days", days)
        self._hand_over(name)
        return name

    def serial(self, name: str) -> str:
        return self._openssl("x509", "-in", self.crt(name), "-noout", "-serial").strip().split("=")[1]

    def _key(self, name: str) -> None:
        self._openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", self.key(name))

    def _hand_over(self, name: str) -> None:
        for path in (self.crt(name), self.key(name)):
            os.chmod(path, 0o600)           # libpq and PostgreSQL refuse keys that others can read
            give_away(path)

    @staticmethod
    def _openssl(*arguments: object) -> str:
        done = subprocess.run(["openssl", *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"openssl {' '.join(map(str, arguments))} failed:\n{done.stdout}")
        return done.stdout
