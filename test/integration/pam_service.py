"""PAM as a pooler asks it: a service of its own folder (auth_pam_confdir), whose judge is a script."""
from __future__ import annotations

from pooler import Pooler

SERVICE = """
auth     required pam_exec.so quiet expose_authtok /bin/sh {folder}/judge.sh
account  required pam_permit.so
"""
# Reads the password as PAM hands it over: up to a zero byte.
PASSWORD = "password=$(tr -d '\\000')\n"


def write_service(pooler: Pooler, judge: str) -> None:
    """`judge` sees $PAM_USER, $PAM_RHOST and $password, and ends with 0 when they are good."""
    pooler.write("pgbouncer", SERVICE.replace("{folder}", str(pooler.folder)))
    pooler.write("judge.sh", PASSWORD + judge.replace("{folder}", str(pooler.folder)))


def judge_of(passwords: dict[str, str]) -> str:
    """Who may come in with what."""
    good = "".join(f"  '{user}:{password}') exit 0 ;;\n" for user, password in passwords.items())
    return f'case "$PAM_USER:$password" in\n{good}esac\nexit 3\n'
