# Processes that go on when the script that started them ends. Each has a name, under which the state directory has its
# log (log/NAME.log), its pid and the time of its start (pid/NAME): a pid that another process has by now is let alone.

# Prints nothing for a process that has ended, whether somebody has taken notice or not.
start_time() { # PID
    # Fields are counted from the name's end, because a name may have spaces.
    sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | awk '$1 != "Z" { print $20 }'
}

launch() { # NAME COMMAND...
    local name=$1
    setsid "${@:2}" >>"$state/log/$name.log" 2>&1 </dev/null &
    echo "$! $(start_time $!)" >"$state/pid/$name"
}

# Prints the pid of a process that runs.
pid_of() { # NAME
    local pid started
    [[ -f $state/pid/$1 ]] || return 1
    read -r pid started <"$state/pid/$1"
    [[ -n $started && $(start_time "$pid") == "$started" ]] || return 1
    echo "$pid"
}

# Ends a process as a crash does, and returns when it is gone: nothing that a cluster of tests holds is worth saving.
kill_process() { # NAME
    local pid
    if pid=$(pid_of "$1"); then
        kill -KILL "$pid"
        wait_until 60 not pid_of "$1"
    fi
    rm -f "$state/pid/$1"
}

not() {
    ! "$@"
}

wait_until() { # SECONDS COMMAND...
    local end=$((SECONDS + $1))
    until "${@:2}" >/dev/null 2>&1; do
        ((SECONDS < end)) || fail "waited $1 s in vain for: ${*:2}; see $state/log"
        sleep 0.05
    done
}
