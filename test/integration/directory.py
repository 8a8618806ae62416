"""A real LDAP server (slapd) for one test run, with the users that the tests log in as."""
from __future__ import annotations

import os
import pathlib
import shutil
import socket
import subprocess

from certificates import Certificates
from cluster import HOST, clean_environment, free_port, give_away, make_folder, run_as, wait_for

CONFIGURATION = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {folder}/slapd.pid
TLSCertificateFile {certificate}
TLSCertificateKeyFile {key}
database mdb
suffix "dc=x"
rootdn "cn=root,dc=x"
rootpw "root secret"
directory {folder}/data
maxsize 10485760
# Nobody but the finder may look for people; the guarded ones can't log in without encryption.
access to dn.subtree="ou=guarded,dc=x" attrs=userPassword by ssf=128 anonymous auth by * none
access to attrs=userPassword by anonymous auth by * none
access to dn.subtree="ou=people,dc=x" by dn.exact="cn=finder,dc=x" read by * none
access to * by * read
"""

ENTRIES = """
dn: dc=x
objectClass: dcObject
objectClass: organization
dc: x
o: x

dn: cn=finder,dc=x
objectClass: person
cn: finder
sn: finder
userPassword: finder secret

dn: ou=people,dc=x
objectClass: organizationalUnit
ou: people

dn: ou=guarded,dc=x
objectClass: organizationalUnit
ou: guarded

dn: ou=members,dc=x
objectClass: organizationalUnit
ou: members
"""

PERSON = """
dn: {dn}
objectClass: inetOrgPerson
cn: {uid}
sn: {uid}
uid: {uid}
title: {title}
userPassword: {password}
"""


# Where the members of one's own choice are: uid=name,ou=members,dc=x.
MEMBERS = "ou=members,dc=x"


class Directory:
    """Running from its making to stop(); `members` are names and passwords besides the people who are always there."""

    def __init__(self, certificates: Certificates, certificate: str, members: dict[str, str] | None = None) -> None:
        self.folder = make_folder("pgweir-ldap-")
        self.port, self.tls_port = free_port(), free_port()
        self.log_path = self.folder / "log"
        # A copy is nobody's business: some systems confine the installed one to its own folders.
        self.program = self.folder / "slapd"
        shutil.copyfile("/usr/sbin/slapd", self.program)
        os.chmod(self.program, 0o755)
        (self.folder / "data").mkdir()
        give_away(self.folder / "data")
        self._write("slapd.conf", CONFIGURATION.format(folder=self.folder, certificate=certificates.crt(certificate), key=certificates.key(certificate)))
        people = [PERSON.format(dn=f"uid={uid},ou={place},dc=x", uid=uid, title=title, password=password)
                  for uid, place, title, password in (("other", "people", "staff", "ldap secret"), ("app", "people", "guest", "app secret"),
                                                      ("other", "guarded", "staff", "guarded secret"))]
        people += [PERSON.format(dn=f"uid={uid},{MEMBERS}", uid=uid, title="member", password=password) for uid, password in (members or {}).items()]
        people += [PERSON.format(dn=f"cn=twin {number},ou=people,dc=x", uid="twin", title="staff", password="twin secret") for number in (1, 2)]
        entries = self._write("entries.ldif", ENTRIES + "".join(people))
        done = subprocess.run([str(self.program), "-Ta", "-f", str(self.folder / "slapd.conf"), "-l", str(entries)], cwd=self.folder, env=clean_environment(),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **run_as())
        if done.returncode != 0:
            raise RuntimeError(f"slapd takes no entries:\n{done.stdout}")
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [str(self.program), "-f", str(self.folder / "slapd.conf"), "-h", f"ldap://{HOST}:{self.port} ldaps://{HOST}:{self.tls_port}", "-d", "0"],
                cwd=self.folder, env=clean_environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, **run_as())
        wait_for("slapd listens", self._listens)

    def _write(self, name: str, text: str) -> pathlib.Path:
        path = self.folder / name
        path.write_text(text)
        give_away(path)
        return path

    def _listens(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f"slapd ended with {self.process.returncode} at its start:\n{self.log_path.read_text()}")
        for port in (self.port, self.tls_port):
            socket.create_connection((HOST, port), timeout=5).close()
        return True

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
