# SPDX-License-Identifier: Apache-2.0
# bash completion for alula. A test holds these lists against each command's --help.

_alula_options() {
    local common="--source --gpu --speed --start --end --config --no-cmdline --no-color --color --help"
    case $1 in
    top) echo "--once --size --for --filter --sort --flat --pcie --ascii --utf8 --no-mouse --keys --interval --no-stacks $common" ;;
    watch) echo "--json --compat --for --fail-on --model-size --quiet --verbose --summary --pcie --record-scenario --interval --no-stacks $common" ;;
    ps) echo "-a --all -u --user --json --interval $common" ;;
    dump) echo "-p --pid -s --subprocesses -l --locals --tree --all-ranks --brief -n --native --native-all --blocking --nonblocking --json --depth --no-cmdline --help" ;;
    stacks) echo "-p --pid -s --subprocesses --tree -i --idle -g --gil -n --native -l --lines -t --threads --thread --filter --sort --window -w --whole -r --rate -d --duration --once --rows --json --ascii --no-color --no-cmdline --help" ;;
    profile) echo "-o --output -d --duration -r --rate -f --format -g --gil -i --idle -s --subprocesses --tree -t --threads -F --function --nolineno -n --native --native-all --blocking --nonblocking -p --pid --from --list --id --no-record --no-cmdline --quiet --help" ;;
    ask) echo "memory-summary empty-cache --json --timeout --help" ;;
    run) echo "--output-dir --log-every --tensorboard --record --no-record --fail-on --soak --model-size --empty-cache-above --nvtx --preset --quiet --verbose --interval --gpu --config --no-cmdline --no-stacks --no-color --color --help" ;;
    attach) echo "--for --wait --tree --output-dir --log-every --tensorboard --record --no-record --fail-on --model-size --empty-cache-above --preset --quiet --verbose --interval --gpu --config --no-cmdline --no-stacks --no-color --color --help" ;;
    report) echo "--json --verbose --config --help" ;;
    compare) echo "--json --help" ;;
    serve) echo "--listen --dcgm-names --max-processes --pod-resources --insecure-listen --interval $common" ;;
    record) echo "-o --output --force --for --keep --plain --full --coarse --no-wal --quiet --interval --no-stacks $common" ;;
    replay) echo "--speed --start --end --json --quiet --fail-on --summary --help" ;;
    export) echo "--format -o --output --force --from --to --gpu --ranks --redact --help" ;;
    info) echo "--json --help" ;;
    plot) echo "--metric --gpu --pid --from --to --svg --csv --ascii --help" ;;
    stat) echo "-c --show-cmd -f --show-full-cmd -u --show-user -p --show-pid -F --show-fan -e --show-codec -P --show-power" \
        "-a --show-all -i --interval --json --id --gpuname-width --no-header --no-processes --roles --mig --debug" \
        "--force-color $common" ;;
    smi) echo "--query-gpu --query-compute-apps --help-query-gpu --help-query-compute-apps --format -i --id -l --loop -lms" \
        "--loop-ms -f --filename -L --list-gpus --interval $common" ;;
    dmon) echo "-i --id -d --delay -c --count -s --select --gpm-metrics -o --options --format -f --filename --interval $common" ;;
    pmon) echo "-i --id -d --delay -c --count -s --select -o --options -f --filename --interval $common" ;;
    memory) echo "--tree --json --interval $common" ;;
    doctor) echo "--json --interval $common" ;;
    demo) echo "--scenario --speed --start --help" ;;
    check-config) echo "--print --help" ;;
    completion) echo "--help" ;;
    help) echo "--metrics --markdown --help" ;;
    '') echo "--help --version" ;;
    esac
}

# Whoever may be looked at: root everybody, others their own.
_alula_pids() {
    local process
    for process in /proc/[0-9]*; do
        [[ $EUID == 0 || -O $process ]] && echo "${process##*/}"
    done
}

# The words that may follow an option; fails when they are files or free text.
_alula_values() {
    case $1 in
    --sort) case $2 in
        stacks) echo "self total self-time total-time name difference" ;;
        *) echo "gpu pid user role memory sm cpu host time command steps" ;;
        esac ;;
    --fail-on) echo "info warning critical" ;;
    --preset) echo "debug" ;;
    --pid) case $2 in
        plot) return 1 ;;
        *) _alula_pids ;;
        esac ;;
    --source) echo "nvml scenario: replay:" ;;
    --show-codec) echo "enc dec enc,dec" ;;
    --show-power) echo "draw limit draw,limit" ;;
    --format) case $2 in
        export) echo "csv json jsonl sqlite" ;;
        profile) echo "flamegraph svg speedscope folded pprof chrome alula" ;;
        *) echo "csv csv,noheader csv,noheader,nounits" ;;
        esac ;;
    *) return 1 ;;
    esac
}

_alula() {
    local commands="top watch ps run attach dump stacks profile ask report compare serve record replay export info plot stat smi memory doctor demo check-config completion help"
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command='' i word values
    COMPREPLY=()
    # '=' is a word of its own in COMP_WORDS.
    if [[ $cur == = ]]; then
        cur=''
    elif [[ $prev == = ]]; then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        case $command in
        '') [[ " $commands " == *" $word "* ]] && command=$word ;;
        demo) [[ " top watch stat smi memory doctor " == *" $word "* ]] && command=$word ;;
        smi) [[ $word == dmon || $word == pmon ]] && command=$word ;;
        esac
    done
    case $command$prev in
    profile-f) prev=--format ;;
    dump-p | stacks-p | profile-p) prev=--pid ;;
    esac
    if [[ $prev == --* ]] && values=$(_alula_values "$prev" "$command"); then
        mapfile -t COMPREPLY < <(compgen -W "$values" -- "$cur")
        [[ ${COMPREPLY[0]} == *: ]] && compopt -o nospace 2>/dev/null
        return
    fi
    case $prev in
    --config | --record-scenario | --scenario | --filename | --output | --output-dir | --record | -o | --svg | --csv | -f)
        [[ $command == stat ]] || { mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return; } ;;
    --from) [[ $command == profile ]] && { mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return; } ;;
    esac
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_alula_options "$command")" -- "$cur")
        return
    fi
    case $command in
    '') values=$commands ;;
    demo) values="top watch stat smi memory doctor" ;;
    smi) values="dmon pmon" ;;
    completion) values="bash zsh fish" ;;
    help) values="$commands $("${COMP_WORDS[0]}" help --metrics 2>/dev/null | sed -n 's/^  \([^ ]*\).*/\1/p')" ;;
    check-config | report | compare | replay | export | info | plot) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    attach | dump | stacks | profile | ask | memory) case $prev in
        # What takes a number, a time or a name.
        -d | -r | --duration | --rate | --depth | --thread | --filter | --window | --rows | --id | --for | --wait | --log-every | \
            --model-size | --empty-cache-above | --interval | --gpu | --speed | --start | --end | --timeout) values= ;;
        *) values=$(_alula_pids) ;;
        esac ;;
    *) values= ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$values" -- "$cur")
}

complete -o filenames -F _alula alula
