#!/bin/sh
# Stops the test servers in a folder and removes it (see server.rs): now, or after ten minutes without use.
# Servers that a running process uses are not stopped.
# usage: control.sh stop|watch FOLDER
folder=$2
idle_minutes=10
poll_every_seconds=20
# A process that has just ended may not have released its lock yet.
lock_tries=30
# A fast shutdown with a small checkpoint takes less than a second.
stop_tries=300

# A pid file can outlive its server, so the process must be postgres on that folder.
is_server() {
    if [ -e /proc/self/cmdline ]; then
        command_line=$(tr '\0' ' ' <"/proc/$1/cmdline")
    else
        command_line=$(ps -ww -o args= -p "$1")
    fi 2>/dev/null
    case $command_line in *postgres*"$2"*) return 0 ;; *) return 1 ;; esac
}

# Takes exclusively the lock that every process holds, shared, while it uses a server here. Held until this shell ends.
lock_out_users() {
    exec 9>>"$folder/in-use" || return 1
    tries=0
    while [ "$tries" -lt "$lock_tries" ]; do
        if command -v flock >/dev/null 2>&1; then
            flock -n -x 9 && return 0
        else
            # Not every system has flock; perl takes the same lock.
            perl -e 'open(my $file, ">>&=", 9) or exit 1; exit(flock($file, 2 | 4) ? 0 : 1)' && return 0
        fi
        tries=$((tries + 1))
        sleep 0.1
    done
    return 1
}

stop_all() {
    for pid_file in "$folder"/*/data/postmaster.pid; do
        [ -e "$pid_file" ] || continue
        data=${pid_file%/postmaster.pid}
        pid=$(head -n 1 "$pid_file")
        is_server "$pid" "$data" || continue
        kill -s INT "$pid"
        tries=0
        while is_server "$pid" "$data"; do
            tries=$((tries + 1))
            [ "$tries" -lt "$stop_tries" ] || { echo "process $pid does not stop; $folder is kept" >&2; return 1; }
            sleep 0.1
        done
    done
    # If the path of a socket would be too long, the socket is in a separate folder.
    for remembered in "$folder"/*/socket_dir; do
        [ -e "$remembered" ] || continue
        socket_dir=$(cat "$remembered")
        case $socket_dir in */../*) ;; /tmp/reveille-*) rm -rf "$socket_dir" ;; esac
    done
    rm -rf "$folder"
}

case $1 in
stop)
    if lock_out_users; then stop_all; else echo "the test servers in $folder are in use and keep running"; fi
    ;;
watch)
    while [ -e "$folder/server/data/postmaster.pid" ]; do
        if [ -n "$(find "$folder/heartbeat" -mmin +"$idle_minutes")" ] && lock_out_users; then
            stop_all
            break
        fi
        sleep "$poll_every_seconds"
    done
    # The server may have been stopped by another program; the folder may be in memory.
    if [ -d "$folder" ] && lock_out_users; then stop_all; fi
    ;;
esac
