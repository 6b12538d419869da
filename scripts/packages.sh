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

# install_packages MANAGER PACKAGE...
install_packages() {
    manager=$1
    shift
    case $manager in
    apt-get)
        # The lists of a fresh container are empty, and those of an old machine name files that are gone.
        quietly as_root apt-get update &&
            quietly as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
        ;;
    dnf | yum) quietly as_root "$manager" install -y "$@" ;;
    apk) quietly as_root apk add "$@" ;;
    pacman) quietly as_root pacman -S --noconfirm --needed "$@" ;;
    zypper) quietly as_root zypper --non-interactive install "$@" ;;
    brew) quietly brew install "$@" ;;
    esac
}
