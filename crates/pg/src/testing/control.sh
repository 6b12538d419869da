#!/bin/sh
# Stops the test servers in a folder (see server.rs): now, or when nobody has used them for ten minutes.
# usage: control.sh stop|watch FOLDER
folder=$2
idle_minutes=10
look_every_seconds=20

# A pid file can outlive its server, so the process must be postgres on that very folder.
is_server() {
    if [ -e /proc/self/cmdline ]; then
        command_line=$(tr '\0' ' ' <"/proc/$1/cmdline")
    else
        command_line=$(ps -ww -o args= -p "$1")
    fi 2>/dev/null
    case $command_line in *postgres*"$2"*) return 0 ;; *) return 1 ;; esac
}

stop_all() {
    for pid_file in "$folder"/*/data/postmaster.pid; do
        [ -e "$pid_file" ] || continue
        data=${pid_file%/postmaster.pid}
        pid=$(head -n 1 "$pid_file")
        is_server "$pid" "$data" || continue
        kill -s INT "$pid"
        while is_server "$pid" "$data"; do sleep 0.1; done
    done
    rm -rf "$folder"/private-*
}

case $1 in
stop) stop_all ;;
watch)
    while [ -e "$folder/server/data/postmaster.pid" ]; do
        if [ -n "$(find "$folder/heartbeat" -mmin +"$idle_minutes")" ]; then
            stop_all
            break
        fi
        sleep "$look_every_seconds"
    done
    ;;
esac
