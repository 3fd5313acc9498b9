#!/bin/sh
# make setup: the programs that tests and demo run, and .venv with this project and what it imports.
#
# System packages come from apt when we are root or sudo asks no password; elsewhere this prints what to install
# and stops. Called again it finds the stamp in .venv and all programs, and is done.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cd "$root"
venv=.venv
stamp=$venv/.setup-done
unfinished=$venv/.setup-unfinished
PATH=$PATH:/usr/sbin:/sbin # where sshd and ip live, and an ordinary user's PATH does not look
export PATH

# program, Debian package, Fedora package
needed_programs='
ceph          ceph-common    ceph-common
rbd           ceph-common    ceph-common
rados         ceph-common    ceph-common
ceph-authtool ceph-common    ceph-common
monmaptool    ceph-base      ceph-base
ceph-mon      ceph-mon       ceph-mon
ceph-mgr      ceph-mgr       ceph-mgr
ceph-osd      ceph-osd       ceph-osd
fio           fio            fio
collectl      collectl       collectl
top           procps         procps-ng
sshd          openssh-server openssh-server
ssh           openssh-client openssh-clients
ssh-keygen    openssh-client openssh-clients
ip            iproute2       iproute
'

say() { printf 'setup: %s\n' "$*"; }

stop() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# The packages (column $1 of the table) of the programs that are not on the PATH, each once.
missing_packages() {
    column=$1
    {
        printf '%s' "$needed_programs" | while read -r program debian fedora; do
            [ -n "$program" ] || continue
            have "$program" && continue
            if [ "$column" = apt ]; then echo "$debian"; else echo "$fedora"; fi
        done
        if have fio && ! fio --enghelp 2>/dev/null | grep -qw rbd; then
            if [ "$column" = apt ]; then echo fio; else echo fio-engine-rbd; fi
        fi
    } | sort -u | tr '\n' ' '
}

# What the installation was made from. The path counts: a virtual environment cannot be moved.
fingerprint() {
    echo "$root"
    cksum setup.py pyproject.toml orchestrator/version.py make/setup.sh
}

is_done() {
    [ -f "$stamp" ] && [ ! -e "$unfinished" ] && [ "$(cat "$stamp")" = "$(fingerprint)" ] &&
        [ -z "$(missing_packages apt)" ] && "$venv/bin/python" -c '' 2>/dev/null
}

as_root() {
    if [ "$(id -u)" = 0 ]; then env "$@"; else sudo -n env "$@"; fi
}

may_use_apt() {
    have apt-get && { [ "$(id -u)" = 0 ] || { have sudo && sudo -n true 2>/dev/null </dev/null; }; }
}

apt_get() {
    as_root DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
        -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold "$@" </dev/null
}

policy=/usr/sbin/policy-rc.d
policy_mark='# written by make setup of cbt while it installs packages: their services are not started'

# Debian starts a service when its package is installed. Only the programs are wanted here, so starting is forbidden
# meanwhile; a policy that somebody else put there stays as it is.
forbid_starting() {
    if [ ! -e "$policy" ] || grep -qF "$policy_mark" "$policy"; then
        printf '#!/bin/sh\n%s\nexit 101\n' "$policy_mark" | as_root tee "$policy" >/dev/null
        as_root chmod 755 "$policy"
        trap allow_starting EXIT
        trap 'exit 130' INT TERM HUP
    fi
}

allow_starting() {
    if [ -e "$policy" ] && grep -qF "$policy_mark" "$policy"; then as_root rm -f "$policy"; fi
    trap - EXIT INT TERM HUP
}

# Services that the packages bring and enable; nobody asked for them, only for the programs. Those of programs that
# were here before stay as they are.
services_to_come() {
    have sshd || echo ssh.service
    have collectl || echo collectl.service
}

# Installs Debian packages; asks for fresh package lists only when the ones at hand do not do.
apt_install() {
    say "installing with apt-get: $*"
    services=$(services_to_come)
    forbid_starting
    status=0
    if apt-cache show --no-all-versions "$@" >/dev/null 2>&1 && apt_get install --no-install-recommends "$@"; then
        :
    else
        say 'the package lists are missing or old: apt-get update'
        { apt_get update && apt_get install --no-install-recommends "$@"; } || status=$?
    fi
    if [ -n "$services" ] && have systemctl; then
        # shellcheck disable=SC2086 # unit names, meant to be split
        as_root systemctl --root=/ disable $services >/dev/null 2>&1 || say "could not disable $services"
    fi
    allow_starting
    return "$status"
}

install_system_packages() {
    packages=$(missing_packages apt)
    [ -n "$packages" ] || return 0
    if ! may_use_apt; then
        {
            say 'some programs are missing, and this user cannot install them (no apt-get, or neither root nor sudo'
            say 'without a password). Install them, then call make again:'
            say "  Debian, Ubuntu: apt-get install $packages"
            say "  Fedora, RHEL:   dnf install $(missing_packages dnf)"
        } >&2
        exit 1
    fi
    # shellcheck disable=SC2086 # package names, meant to be split
    apt_install $packages || stop "apt-get could not install $packages(its messages are above)"
    packages=$(missing_packages apt)
    [ -z "$packages" ] || stop "still missing after apt-get: $packages(is there another fio in front on the PATH?)"
}

# The first Python that is new enough.
find_python() {
    for python in ${PYTHON:+"$PYTHON"} python3 python3.13 python3.12 python3.11; do
        if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            command -v "$python"
            return
        fi
        if [ "$python" = "${PYTHON:-}" ]; then stop "PYTHON=$PYTHON is not a Python of version 3.11 or newer"; fi
    done
    stop 'no Python 3.11 or newer found (tried python3, python3.13, python3.12, python3.11); install one or set PYTHON='
}

# The last test finds an environment that was copied or moved here: its scripts would run the Python of the other place.
venv_works() {
    "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null &&
        "$venv/bin/python" -m pip --version >/dev/null 2>&1 &&
        head -n 3 "$venv/bin/pip" 2>/dev/null | grep -qF "$root/$venv/bin/"
}

# Debian keeps ensurepip, without which a virtual environment gets no pip, in a package of its own.
can_make_venv() { "$1" -c 'import venv; from ensurepip import bootstrap' 2>/dev/null; }

make_venv() {
    python=$(find_python) || exit 1
    short=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    say "making .venv with $python (Python $short)"
    rm -rf "$venv"
    mkdir "$venv"
    : >"$unfinished"
    if ! can_make_venv "$python" && may_use_apt; then
        apt_install "python$short-venv" || say "apt-get has no python$short-venv for this Python"
    fi
    if can_make_venv "$python"; then
        "$python" -m venv "$venv"
    elif "$python" -c 'import venv' 2>/dev/null && "$python" -m pip --python "$python" --version >/dev/null 2>&1; then
        say 'this Python has no ensurepip: its own pip installs pip into .venv'
        "$python" -m venv --without-pip "$venv"
        "$python" -m pip --python "$venv/bin/python" install --quiet --no-input pip
    else
        stop "$python cannot make virtual environments: install python$short-venv (Debian) or name another with PYTHON="
    fi
    venv_works || stop ".venv has no working pip although $python made it; name another Python with PYTHON="
}

install_python_packages() {
    if [ -d "$venv" ] && { [ -e "$unfinished" ] || ! venv_works; }; then
        say 'the .venv that is here is not whole (an interrupted set-up, a moved folder): it is made anew'
        make_venv
    elif [ ! -d "$venv" ]; then
        make_venv
    fi
    say 'installing the project and what it needs into .venv'
    : >"$unfinished"
    rm -f "$stamp"
    status=0
    # Without PYTHONWARNINGS setuptools prints a screenful about editable installations, which this is on purpose.
    PYTHONWARNINGS=ignore "$venv/bin/python" -m pip install --quiet --no-input --disable-pip-version-check --progress-bar off \
        -e '.[dev]' </dev/null || status=$?
    # pip ended by itself, so what is in .venv is consistent; only a set-up that was killed leaves this mark.
    rm -f "$unfinished"
    [ "$status" = 0 ] || stop 'pip could not install the Python packages (its messages are above)'
    fingerprint >"$stamp"
}

if is_done; then
    say 'everything is in place'
    exit 0
fi
if have flock; then # two set-ups in one tree at once would spoil each other
    exec 9<"$root"
    flock -n 9 || {
        say 'waiting for another set-up in this folder'
        flock 9
    }
fi
install_system_packages
if ! is_done; then install_python_packages; fi
say "done: $("$venv/bin/python" --version), $(fio --version), $(ceph --version | cut -d' ' -f1-3)"
