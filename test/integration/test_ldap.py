"""An LDAP server judges passwords: a real one, asked in each way that the options know."""
from __future__ import annotations

import signal
import socket

import pytest

import pooler as poolers
import wire
from certificates import Certificates
from cluster import HOST, free_port, wait_for
from directory import Directory
from test_auth import OK, attempt, settings_with
from wire import Wire

FAILED = "LDAP authentication failed"
SECRETS = ("ldap secret", "guarded secret", "app secret", "twin secret", "finder secret")


@pytest.fixture(scope="module")
def certificates():
    made = Certificates()
    made.issue("directory", "directory", "IP:127.0.0.1")
    yield made
    made.remove()


@pytest.fixture(scope="module")
def directory(certificates):
    running = Directory(certificates, "directory")
    yield running
    running.stop()


def ini(cluster, dbname: str, names: str, auth_type: str = "hba", more: str = "auth_hba_file = {folder}/hba\n") -> str:
    lines = "".join(f"{name} = host={HOST} port={cluster.primary.port} dbname={dbname}\n" for name in names.split())
    return "[databases]\n" + lines + settings_with(auth_type, more)


def rules(**options: str) -> str:
    return "".join(f"host {name} all all ldap {text}\n" for name, text in options.items())


def test_the_name_becomes_a_dn_or_is_searched_for(cluster, db, directory):
    at = f"ldapserver={HOST} ldapport={directory.port}"
    finder = 'ldapbinddn="cn=finder,dc=x" ldapbindpasswd="finder secret"'
    hba = rules(simple=f'{at} ldapprefix="uid=" ldapsuffix=",ou=people,dc=x"',
                search=f'{at} ldapbasedn="ou=people,dc=x" {finder}',
                attribute=f'{at} ldapbasedn="ou=people,dc=x" ldapsearchattribute=uid {finder}',
                filtered=f'{at} ldapbasedn="ou=people,dc=x" ldapsearchfilter="(&(uid=$username)(title=staff))" {finder}',
                url=f'ldapurl="ldap://{HOST}:{directory.port}/ou=people,dc=x?uid?one" {finder}',
                base=f'ldapurl="ldap://{HOST}:{directory.port}/ou=people,dc=x?uid?base" {finder}',
                nameless=f'{at} ldapbasedn="ou=people,dc=x"',
                wrong=f'{at} ldapbasedn="ou=people,dc=x" ldapbinddn="cn=finder,dc=x" ldapbindpasswd="no secret"',
                second=f'ldapserver="127.0.0.2 {HOST}" ldapport={directory.port} ldapprefix="uid=" ldapsuffix=",ou=people,dc=x"')
    # database -> what becomes of other, and of app, with their right passwords
    table = {"simple": (OK, OK), "search": (OK, OK), "attribute": (OK, OK), "filtered": (OK, FAILED), "url": (OK, OK), "base": (FAILED, FAILED),
             "nameless": (FAILED, FAILED), "wrong": (FAILED, FAILED), "second": (OK, OK)}
    with poolers.running(ini(cluster, db, " ".join(table)), "", {"hba": hba}) as pooler:
        for name, expected in table.items():
            assert (attempt(pooler, name, "other", "ldap secret"), attempt(pooler, name, "app", "app secret")) == expected, name
            for user, password in (("other", "wrong"), ("other", "app secret"), ("nobody_here", "ldap secret"), ("twin", "twin secret")):
                assert attempt(pooler, name, user, password) == FAILED, (name, user)
            # A name is a name, whatever is written in it.
            for user in ("*", "oth*", "other)(uid=*", "other,ou=people", "oth\\65r", "other\\00"):
                assert attempt(pooler, name, user, "ldap secret") == FAILED, (name, user)
        for words in ("LDAP bind as \"uid=other,ou=people,dc=x\": Invalid credentials", "LDAP search for (uid=nobody_here): 0 entries, expected one",
                      "(uid=twin): ", "LDAP bind as \"cn=finder,dc=x\": Invalid credentials"):
            pooler.wait_log(words)
        assert [secret for secret in SECRETS if secret in pooler.log()] == []


def test_an_empty_password_is_nobodys(cluster, db, directory):
    """A directory takes a bind without a password for an anonymous one, and says yes."""
    hba = rules(t=f'ldapserver={HOST} ldapport={directory.port} ldapprefix="uid=" ldapsuffix=",ou=people,dc=x"')
    with poolers.running(ini(cluster, db, "t"), "", {"hba": hba}) as pooler, Wire(pooler.port) as client:
        assert client.login("other", "t", "").errors[0]["M"] == "empty password returned by client"


def test_the_password_travels_encrypted_where_that_is_asked_for(cluster, db, directory, certificates, monkeypatch):
    """The directory lets guarded people in over TLS only. Whom to trust is OpenLDAP's to know (ldap.conf, LDAPTLS_CACERT)."""
    tail = 'ldapprefix="uid=" ldapsuffix=",ou=guarded,dc=x"'
    hba = rules(plain=f"ldapserver={HOST} ldapport={directory.port} {tail}",
                start=f"ldapserver={HOST} ldapport={directory.port} ldaptls=1 {tail}",
                ldaps=f"ldapserver={HOST} ldapport={directory.tls_port} ldapscheme=ldaps {tail}",
                none=f"ldapserver={HOST} ldapport={directory.tls_port} {tail}")
    for authority, expected in (("ca", OK), ("other-ca", FAILED)):
        monkeypatch.setenv("LDAPTLS_CACERT", str(certificates.crt(authority)))
        with poolers.running(ini(cluster, db, "plain start ldaps none", more="auth_hba_file = {folder}/hba\nclient_login_timeout = 30\n"), "", {"hba": hba}) as pooler:
            assert attempt(pooler, "plain", "other", "guarded secret") == FAILED
            for name in ("start", "ldaps"):
                assert attempt(pooler, name, "other", "guarded secret") == expected, (authority, name)
                assert attempt(pooler, name, "other", "wrong") == FAILED
            if expected != OK:
                pooler.wait_log("LDAP start TLS: ")
            assert [secret for secret in SECRETS if secret in pooler.log()] == []


def test_options_come_from_the_setting_and_from_a_reload(cluster, db, directory):
    def text(port: int) -> str:
        return ini(cluster, db, "t", "ldap", f'auth_ldap_options = ldapserver={HOST} ldapport={port} ldapprefix="uid=" ldapsuffix=",ou=people,dc=x"\n')
    with poolers.running(text(free_port()), "") as pooler:
        assert attempt(pooler, "t", "other", "ldap secret") == FAILED
        pooler.wait_log("Can't contact LDAP server")
        pooler.write_ini(text(directory.port).replace("{port}", str(pooler.port)))
        pooler.signal(signal.SIGHUP)
        pooler.wait_log("configuration reloaded")
        assert attempt(pooler, "t", "other", "ldap secret") == OK


def test_a_directory_that_hangs_holds_up_nobody_else(cluster, db, directory):
    """More logins than there are threads for wait on it; they end at the login timeout, and the pooler is none the wiser."""
    silent = socket.create_server((HOST, 0))
    hba = rules(stuck=f'ldapserver={HOST} ldapport={silent.getsockname()[1]} ldapprefix="uid=" ldapsuffix=",dc=x"') + "host t all all trust\n"
    with poolers.running(ini(cluster, db, "stuck t", more="auth_hba_file = {folder}/hba\nclient_login_timeout = 1\n"), '"other" ""\n', {"hba": hba}) as pooler:
        waiting = [Wire(pooler.port) for _ in range(5)]
        for client in waiting:
            client.send(wire.startup("other", "stuck"))
            assert client.receive()[0] == "R"
            client.send(wire.message("p", wire.text("ldap secret")))
        assert attempt(pooler, "t", "other", None) == OK
        for client in waiting:
            assert client.until_closed().errors[0]["M"] == "client_login_timeout"
            client.close()
        wait_for("it goes on", lambda: attempt(pooler, "t", "other", None) == OK)
    silent.close()
