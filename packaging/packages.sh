# The Debian packages that pgweir needs, and how they are installed. Sourced by test/run and packaging/quickstart.

build_packages="cmake ninja-build g++ pkg-config libuv1-dev libssl-dev libpq-dev libinih-dev libhiredis-dev libpam0g-dev libldap-dev catch2"
postgres_packages="postgresql-15 postgresql-client-15"
test_packages="libpg-query-dev openssl python3 python3-pytest python3-psycopg2 python3-psycopg python3-asyncpg check-postgres pgbadger
  prometheus-pgbouncer-exporter haproxy slapd"
# Nice to have: what is missing of these stops nothing.
optional_packages="ccache"

# missing_packages NAME…: those that are not installed.
missing_packages() {
  for package in "$@"; do
    status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) || status=
    [ "$status" = "install ok installed" ] || printf '%s ' "$package"
  done
}

# as_root COMMAND…: runs it as root, by sudo when we are somebody else.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null 2>&1; then
    # Where nobody sits to type a password, asking for one would wait for ever.
    if [ -n "${CI:-}" ] || [ ! -t 1 ]; then sudo -n "$@"; else sudo "$@"; fi
  else
    echo "$(basename "$0"): this needs root: run it as root or install sudo" >&2
    return 1
  fi
}

# install_packages NAME…: installs what is missing; says what it does, and nothing when all is there.
install_packages() {
  missing=$(missing_packages "$@")
  [ -n "$missing" ] || return 0
  if ! command -v apt-get >/dev/null 2>&1; then
    echo "$(basename "$0"): apt-get is missing (this is made for Debian 12); install these yourself: $missing" >&2
    return 1
  fi
  as_root true || { echo "$(basename "$0"): not allowed to install $missing" >&2; return 1; }
  echo "installing: $missing"
  apt_log=$(mktemp)
  # A list that is a little old is no reason to fail, and neither is a mirror that hiccups once.
  apt_get="env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=a apt-get -q -y -o Acquire::http::Timeout=30 -o DPkg::Lock::Timeout=120"
  # shellcheck disable=SC2086
  as_root $apt_get update >"$apt_log" 2>&1 || true
  tries=${apt_tries:-3}
  # shellcheck disable=SC2086 # one word for each package
  until as_root $apt_get install --no-install-recommends $missing >>"$apt_log" 2>&1; do
    tries=$((tries - 1))
    if [ "$tries" = 0 ]; then
      tail -n 25 "$apt_log" >&2
      echo "$(basename "$0"): apt-get could not install: $missing" >&2
      rm -f "$apt_log"
      return 1
    fi
    sleep 5
    # shellcheck disable=SC2086
    as_root $apt_get update >>"$apt_log" 2>&1 || true
  done
  rm -f "$apt_log"
}

# try_packages NAME…: as install_packages, but their lack is only mentioned.
try_packages() {
  ( apt_tries=1; install_packages "$@" ) >/dev/null 2>&1 || echo "going on without: $(missing_packages "$@")"
}

# build_jobs: compilers that may run at once: one for each core, but not more than memory allows (1.2 GB each).
build_jobs() {
  cores=$(nproc 2>/dev/null || echo 2)
  free_kb=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo 2>/dev/null)
  by_memory=$(( ${free_kb:-4000000} / 1200000 ))
  [ "$by_memory" -ge 1 ] || by_memory=1
  if [ "$cores" -lt "$by_memory" ]; then echo "$cores"; else echo "$by_memory"; fi
}

# fresh_build_folder DIR SOURCE: forgets a build folder that was configured for another source folder (a copied tree).
fresh_build_folder() {
  if [ -f "$1/CMakeCache.txt" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$2" "$1/CMakeCache.txt"; then
    rm -rf "$1"
  fi
}
