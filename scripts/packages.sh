# Sourced by the other scripts: installing packages of the system, quietly, and only where that needs no password.
# shellcheck shell=sh

# Runs a command and shows what it said only if it fails.
quietly() {
    quietly_log=$(mktemp)
    quietly_status=0
    "$@" >"$quietly_log" 2>&1 || quietly_status=$?
    if [ "$quietly_status" != 0 ]; then
        echo "failed: $*" >&2
        cat "$quietly_log" >&2
    fi
    rm -f "$quietly_log"
    return "$quietly_status"
}

has() {
    command -v "$1" >/dev/null 2>&1
}

is_root() {
    [ "$(id -u)" = 0 ]
}

# Runs a command as root: as ourselves, or by sudo if it asks for no password.
as_root() {
    if is_root; then "$@"; else sudo -n "$@"; fi
}

# The package manager that we may use; nothing and failure if there is none.
package_manager() {
    if has brew && ! is_root; then
        echo brew
        return
    fi
    is_root || { has sudo && sudo -n true 2>/dev/null; } || return 1
    for manager in apt-get dnf yum apk pacman zypper; do
        if has "$manager"; then
            echo "$manager"
            return
        fi
    done
    return 1
}

# Debian's packages make a PostgreSQL cluster `main` and start every server they bring. We need the programs alone, so for
# the time of the installation both are switched off, by the files that Debian has for it.
no_main_cluster=/etc/postgresql-common/createcluster.d/reveille.conf
no_services=/usr/sbin/policy-rc.d
keep_debian_from_starting_services() {
    trap let_debian_start_services EXIT
    trap 'exit 130' INT TERM
    made_no_services=
    as_root mkdir -p "${no_main_cluster%/*}"
    echo 'create_main_cluster = false' | as_root tee "$no_main_cluster" >/dev/null
    # One that is there already, as in many containers, has its own reason.
    if [ ! -e "$no_services" ]; then
        made_no_services=yes
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$no_services" >/dev/null
        as_root chmod 755 "$no_services"
    fi
}
let_debian_start_services() {
    as_root rm -f "$no_main_cluster"
    if [ -n "$made_no_services" ]; then as_root rm -f "$no_services"; fi
    as_root rmdir "${no_main_cluster%/*}" 2>/dev/null || true
    trap - EXIT INT TERM
}

# install_packages MANAGER PACKAGE...
install_packages() {
    manager=$1
    shift
    case $manager in
    apt-get)
        # The lists of a fresh container are empty, and those of an old machine name files that are gone.
        quietly as_root apt-get update || return
        keep_debian_from_starting_services
        install_status=0
        quietly as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" || install_status=$?
        let_debian_start_services
        return "$install_status"
        ;;
    dnf | yum) quietly as_root "$manager" install -y "$@" ;;
    apk) quietly as_root apk add "$@" ;;
    pacman) quietly as_root pacman -S --noconfirm --needed "$@" ;;
    zypper) quietly as_root zypper --non-interactive install "$@" ;;
    brew) quietly brew install "$@" ;;
    esac
}
