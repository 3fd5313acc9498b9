# CBT launcher: starts the instances of one host together, and leaves none of them behind.
#
# Started as `sh -c TEXT`. Standard input carries orders, standard output events, one a line. Needs sh and coreutils.
#
# Orders:  a header (token, directory, connect_s, abandon_s, deadline_s, kill_grace_s, backstop_s; then for every
#          instance "instance NUMBER READY_MARKS LINES" and that many lines of quoted words; "end"), and then
#          go | open | stop | stop NUMBER | quit. End of input means that the controller is gone.
# Events:  hello TIME, prepared, going TIME, start NUMBER GROUP TIME, ready NUMBER, opened TIME, exit NUMBER STATUS TIME,
#          connect-timeout, deadline, ending, swept COUNT, unkillable PID..., error TEXT,
#          and after quit: released launch/released.NUMBER.ANY TIME, once for every gate that was passed.
#
# Processes: this shell reads orders. A wrapper for every instance waits for its end. The guard keeps the time limits and
# cleans up; it holds the reading end of the FIFO `life`, whose only writer is this shell: however this shell ends,
# the guard sees the end of that file.
# File descriptors: 3 events, 5 gate (the only writer), 6 life (the only writer), 7 life (the guard's reading end).

LC_ALL=C
export LC_ALL
umask 077
exec 3>&1

fail() {
    printf 'error %s\n' "$*"
    exit 1
}

# ---- header ----------------------------------------------------------------------------------------------------------

count=0 gated=0 complete=
while IFS= read -r line; do
    value=${line#* }
    case $line in
        "token "*) token=$value ;;
        "directory "*) directory=$value ;;
        "connect_s "*) connect_s=$value ;;
        "abandon_s "*) abandon_s=$value ;;
        "deadline_s "*) deadline_s=$value ;;
        "kill_grace_s "*) kill_grace_s=$value ;;
        "backstop_s "*) backstop_s=$value ;;
        "instance "*)
            # shellcheck disable=SC2086 # three numbers
            set -- $value
            lines=$3 text=
            while [ "$lines" -gt 0 ] && IFS= read -r line; do
                text="$text$line
"
                lines=$((lines - 1))
            done
            count=$((count + 1)) gated=$((gated + $2))
            eval "number_$count=\$1 words_$count=\$text"
            ;;
        end)
            complete=yes
            break
            ;;
        *) fail "unknown header line: $line" ;;
    esac
done
[ -n "$complete" ] || exit 1

# ---- preparation -----------------------------------------------------------------------------------------------------

for tool in cat date head mkdir mkfifo mv sleep stat timeout; do
    command -v "$tool" >/dev/null || fail "the program '$tool' is missing; install coreutils"
done
# Only the coreutils program puts what it starts in a process group of its own, and only it knows this option.
timeout --foreground 9 true 2>/dev/null || fail "the program 'timeout' is not the one of coreutils; install coreutils"
date '+hello %s.%N'
problem=$(mkdir -p -- "${directory%/*}/" 2>&1 && mkdir -m 700 -- "$directory" 2>&1) || fail "$problem"
cd -- "$directory" || fail "cannot enter $directory"
problem=$(mkdir launch && mkfifo launch/gate launch/life 2>&1) || fail "$problem"
true >launch/opened || fail "cannot write in $directory"
exec 5<>launch/gate 6<>launch/life
marker="CBT_LAUNCH=$token"
if printf 'x\0y\0' | grep -qzFxe y 2>/dev/null; then search=grep; else search=tr; fi
echo prepared

# ---- ending processes ------------------------------------------------------------------------------------------------

# $running: the process groups of instance $1 ('*' for all) that have not ended. A wrapper empties its file at the end.
list_running() {
    running=
    for file in launch/group.$1; do
        [ -s "$file" ] && read -r group <"$file" && running="$running $group"
    done
}

signal_running() { # SIGNAL NUMBER
    list_running "$2"
    for group in $running; do
        # A process that was forked just now may not lead its group yet.
        kill "-$1" "-$group" 2>/dev/null || kill "-$1" "$group" 2>/dev/null
    done
}

# $found: every process that carries the marker $1 in its environment, wherever it went: fio's jobs leave the session.
find_marked() {
    found=
    if [ "$search" = grep ]; then
        for file in $(grep -lzFxe "$1" /proc/[0-9]*/environ 2>/dev/null); do
            file=${file#/proc/}
            found="$found ${file%/environ}"
        done
        return
    fi
    for file in /proc/[0-9]*/environ; do
        case " $(tr '\0' ' ' 2>/dev/null <"$file")" in
            *" $1 "*)
                file=${file#/proc/}
                found="$found ${file%/environ}"
                ;;
        esac
    done
}

# Kills all that carry the marker $1 until two searches in a row find none (one alone could miss a process that forked).
sweep() {
    rounds=0 clean=0 swept=0
    while [ "$clean" -lt 2 ] && [ "$rounds" -lt 40 ]; do
        find_marked "$1"
        if [ -z "$found" ]; then
            clean=$((clean + 1))
        else
            clean=0
            # shellcheck disable=SC2086 # a list of numbers
            set -- "$1" $found
            [ "$rounds" -gt 0 ] || swept=$(($# - 1))
            # shellcheck disable=SC2086
            kill -KILL $found 2>/dev/null
            sleep 0.05
        fi
        rounds=$((rounds + 1))
    done
    [ "$swept" -eq 0 ] || printf 'swept %s\n' "$swept"
    [ "$clean" -ge 2 ] || printf 'unkillable%s\n' "$found"
}

end() { # MARKER NUMBER GRACE_S: TERM, and KILL for what still runs when the grace is over
    signal_running TERM "$2"
    tenths=$(($3 * 10))
    list_running "$2"
    while [ -n "$running" ] && [ "$tenths" -gt 0 ]; do
        sleep 0.1
        tenths=$((tenths - 1))
        list_running "$2"
    done
    signal_running KILL "$2"
    sweep "$1"
}

# ---- the guard -------------------------------------------------------------------------------------------------------

# $word: "o" (the gate was opened), "gone" (the shell that reads orders has ended), "limit" (neither within $1 seconds).
await_opening() {
    attempts=0
    while [ "$attempts" -lt 5 ]; do
        word=$(exec timeout "$1" head -c 1 <&7)
        case $?:$word in
            *:o) return ;;
            0:*) break ;;
            124:*)
                word=limit
                return
                ;;
        esac
        attempts=$((attempts + 1)) # the helper itself was ended by somebody
        sleep 0.1
    done
    word=gone
}

await_end() { # the same, once the gate is open
    attempts=0
    while [ "$attempts" -lt 5 ]; do
        timeout "$1" cat <&7 >/dev/null
        case $? in
            0) break ;;
            124)
                word=limit
                return
                ;;
        esac
        attempts=$((attempts + 1))
        sleep 0.1
    done
    word=gone
}

guard() {
    exec 7<launch/life
    exec 5>&- 6>&- </dev/null
    trap : HUP INT TERM PIPE
    await_opening "$connect_s"
    if [ "$word" = limit ]; then
        echo connect-timeout
        await_opening "$abandon_s" # the controller decides; but if it stays silent for so long, it is gone
        [ "$word" = o ] || word=gone
    fi
    if [ "$word" = o ]; then
        await_end "$deadline_s"
        if [ "$word" = limit ]; then
            echo deadline
            end "$marker" '*' "$kill_grace_s"
            return 0
        fi
    fi
    list_running '*'
    if [ -n "$running" ]; then
        echo ending
        end "$marker" '*' 1
    else
        sweep "$marker"
    fi
    return 0
}

# ---- instances -------------------------------------------------------------------------------------------------------

instance() { # INDEX
    exec 5>&- 6>&- </dev/null
    trap : HUP INT TERM PIPE
    eval "number=\$number_$1 words=\$words_$1"
    eval "set -- $words"
    CBT_LAUNCH=$token CBT_INSTANCE=$token.$number timeout -k "$kill_grace_s" "$backstop_s" "$@" \
        >"output.$number" 2>"stderr.$number" &
    group=$!
    printf '%s\n' "$group" >"launch/group.$number"
    date "+start $number $group %s.%N"
    wait "$group" 2>/dev/null
    status=$?
    while [ "$status" -gt 128 ] && kill -0 "$group" 2>/dev/null; do # it was this shell that got a signal
        wait "$group" 2>/dev/null
        status=$?
    done
    printf '' >"launch/group.$number"
    kill -KILL "-$group" 2>/dev/null
    date "+exit $number $status %s.%N"
}

# ---- orders ----------------------------------------------------------------------------------------------------------

release() { # who comes later finds an ordinary file and passes; who waits sees the FIFO's end, all at the same moment
    mv -f launch/opened launch/gate 2>/dev/null
    [ -z "$1" ] || date "+$1 %s.%N"
    exec 5>&-
}

# A helper of the guard that ran into its limit just now may take one letter with it: hence several.
tell_guard() {
    printf oooooooooooooooo >&6
}

guard_pid=

# Ends this shell: the guard cleans up as soon as `life` closes.
wind_up() { # EXIT_STATUS
    trap : HUP INT TERM PIPE
    if [ "$1" -ne 0 ]; then
        echo ending
        signal_running TERM '*'
        exec 5>&- # who waits at the gate can end in order
    fi
    exec 6>&-
    if [ -n "$guard_pid" ]; then
        wait "$guard_pid"
        guarded=$?
        while kill -0 "$guard_pid" 2>/dev/null; do
            wait "$guard_pid"
            guarded=$?
        done
        [ "$guarded" -eq 0 ] || end "$marker" '*' 1
    fi
    # Every gate that was passed left an empty file, whose time is the moment of release: no clock had to be asked then.
    [ "$gated" -eq 0 ] || stat -c 'released %n %.9Y' launch/released.* 2>/dev/null
    exit "$1"
}

trap 'wind_up 143' HUP INT TERM
trap : PIPE

while IFS= read -r order; do
    case $order in
        go)
            date '+going %s.%N'
            guard &
            guard_pid=$!
            index=0
            while [ "$index" -lt "$count" ]; do
                index=$((index + 1))
                instance "$index" &
            done
            [ "$gated" -gt 0 ] || tell_guard
            ;;
        open)
            release opened
            tell_guard
            ;;
        stop)
            signal_running TERM '*'
            release ''
            (
                exec 5>&- 6>&-
                trap : HUP INT TERM PIPE
                end "$marker" '*' "$kill_grace_s"
            ) &
            ;;
        "stop "*)
            (
                exec 5>&- 6>&-
                trap : HUP INT TERM PIPE
                end "CBT_INSTANCE=$token.${order#stop }" "${order#stop }" "$kill_grace_s"
            ) &
            ;;
        quit) wind_up 0 ;;
    esac
done
wind_up 1
