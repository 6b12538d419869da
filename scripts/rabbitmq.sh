#!/bin/sh
# A private RabbitMQ, for benchmarks and tests that want a real one. It is the system's package, run in a folder of its own
# beside whatever else runs here, with the durability of a fresh installation.
# usage: rabbitmq.sh install              makes sure that it is installed; fails if that is not possible
#        rabbitmq.sh start FOLDER PORT [tls]
#                                         starts one in an empty folder, waits until it works, and prints its AMQP address;
#                                         the ports PORT, PORT+1 and PORT+2 must be free. With tls the address is that of a
#                                         TLS listener at PORT+3 with a certificate for localhost; its CA is FOLDER/tls/ca.pem
#        rabbitmq.sh pid FOLDER           prints the process of one that runs
#        rabbitmq.sh stop FOLDER          stops it; the folder is the caller's to remove
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh

programs=/usr/lib/rabbitmq/bin
usage() { sed -n 's/^# \{0,1\}//; 4,10p' "$0" >&2; exit 2; }

install() {
    [ -x "$programs/rabbitmq-server" ] && return
    manager=$(package_manager) && [ "$manager" = apt-get ] || {
        echo "RabbitMQ: not installed, and only Debian's package can be installed from here" >&2
        exit 1
    }
    echo "RabbitMQ: installing it with $manager" >&2
    install_packages "$manager" rabbitmq-server
}

# in_folder COMMAND...: a program of RabbitMQ with everything it reads and writes in $folder. Root's is run by the user that the
# package has made, because it refuses to be root.
in_folder() {
    set -- env HOME="$folder" RABBITMQ_HOME= \
        RABBITMQ_NODENAME="reveille-$port@localhost" RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT="$port" \
        RABBITMQ_DIST_PORT=$((port + 1)) ERL_EPMD_PORT=$((port + 2)) ERL_EPMD_ADDRESS=127.0.0.1 \
        RABBITMQ_MNESIA_BASE="$folder/data" RABBITMQ_LOG_BASE="$folder/log" RABBITMQ_LOGS="$folder/log/server.log" \
        RABBITMQ_CONFIG_FILE="$folder/rabbitmq" RABBITMQ_ADVANCED_CONFIG_FILE="$folder/advanced" \
        RABBITMQ_CONF_ENV_FILE="$folder/env.conf" RABBITMQ_ENABLED_PLUGINS_FILE="$folder/plugins" \
        RABBITMQ_PID_FILE="$folder/pid" LANG=C.UTF-8 "$@"
    if is_root; then set -- runuser -u rabbitmq -- "$@"; fi
    "$@"
}

# certificates: a CA of its own, and a certificate of it for localhost and no other name.
certificates() {
    mkdir -p "$folder/tls"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj "/CN=Reveille test CA" \
        -keyout "$folder/tls/ca.key" -out "$folder/tls/ca.pem" 2>/dev/null
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=localhost" \
        -keyout "$folder/tls/server.key" -out "$folder/tls/server.csr" 2>/dev/null
    echo "subjectAltName = DNS:localhost" >"$folder/tls/names"
    openssl x509 -req -in "$folder/tls/server.csr" -CA "$folder/tls/ca.pem" -CAkey "$folder/tls/ca.key" -CAcreateserial \
        -days 30 -extfile "$folder/tls/names" -out "$folder/tls/server.pem" 2>/dev/null
    cat >"$folder/rabbitmq.conf" <<END
listeners.ssl.1 = 127.0.0.1:$((port + 3))
ssl_options.certfile = $folder/tls/server.pem
ssl_options.keyfile = $folder/tls/server.key
ssl_options.verify = verify_none
END
}

start() {
    [ -x "$programs/rabbitmq-server" ] || { echo "RabbitMQ: not installed; run scripts/rabbitmq.sh install" >&2; exit 1; }
    mkdir -p "$folder/data" "$folder/log"
    echo "$port" >"$folder/port"
    echo '[].' >"$folder/plugins"
    # What a fresh installation has.
    : >"$folder/rabbitmq.conf"
    if [ "$tls" ]; then certificates; fi
    : >"$folder/env.conf"
    echo '[].' >"$folder/advanced.config"
    if is_root; then chown -R rabbitmq "$folder"; fi
    in_folder "$programs/rabbitmq-server" -detached >/dev/null 2>&1 </dev/null
    if ! in_folder "$programs/rabbitmqctl" wait "$folder/pid" --timeout 120 >"$folder/log/wait.log" 2>&1 ||
        ! in_folder "$programs/rabbitmqctl" await_startup --timeout 120 >>"$folder/log/wait.log" 2>&1; then
        cat "$folder/log/wait.log" >&2
        tail -n 20 "$folder/log/server.log" >&2 2>/dev/null || true
        exit 1
    fi
    if [ "$tls" ]; then
        echo "amqps://guest:guest@localhost:$((port + 3))/%2f"
    else
        echo "amqp://guest:guest@127.0.0.1:$port/%2f"
    fi
}

stop() {
    in_folder "$programs/rabbitmqctl" stop "$folder/pid" >/dev/null 2>&1 || true
    # The daemon that knows its name ends when it knows none.
    ERL_EPMD_PORT=$((port + 2)) epmd -kill >/dev/null 2>&1 || true
}

folder=${2:-}
case ${1:-} in
install) install ;;
start)
    [ -n "$folder" ] && [ -n "${3:-}" ] || usage
    folder=$(mkdir -p "$folder" && cd "$folder" && pwd -P)
    port=$3
    tls=${4:-}
    start
    ;;
pid | stop)
    folder=$(cd "$folder" && pwd -P) || usage
    port=$(cat "$folder/port")
    if [ "$1" = pid ]; then cat "$folder/pid"; else stop; fi
    ;;
*) usage ;;
esac
