# SPDX-License-Identifier: Apache-2.0
# fish completion for alula. A test holds these lists against each command's --help.

# The command that the line is about: the last one named, so that `demo watch` and `smi dmon` are theirs.
function __alula_command
    set -l found ''
    for word in (commandline -opc)[2..-1]
        switch "$found/$word"
            case /top /watch /ps /run /attach /dump /stacks /profile /ask /report /compare /serve /record /replay /export /info /plot /stat /smi /memory /doctor /demo /check-config /completion /help demo/top demo/watch demo/stat demo/smi \
                    demo/memory demo/doctor smi/dmon smi/pmon
                set found $word
        end
    end
    echo $found
end

function __alula_is
    contains -- "$(__alula_command)" $argv
end

complete -c alula -f
complete -c alula -n '__alula_is ""' -a 'top watch ps run attach dump stacks profile ask report compare serve record replay export info plot stat smi memory doctor demo check-config completion help'
complete -c alula -n '__alula_is ""' -l version
complete -c alula -l help
complete -c alula -n '__alula_is demo' -a 'top watch stat smi memory doctor'
complete -c alula -n '__alula_is smi' -a 'dmon pmon'
complete -c alula -n '__alula_is completion' -a 'bash zsh fish'
complete -c alula -n '__alula_is check-config report compare replay export info plot' -F
complete -c alula -n '__alula_is help' -a "(alula help --metrics 2>/dev/null | string replace -rf '^  (\S+).*' '\$1')"
complete -c alula -n '__alula_is help' -a 'top watch ps run attach dump stacks profile ask report compare serve record replay export info plot stat smi memory doctor demo check-config completion'

set -l reading top watch ps serve record stat smi dmon pmon memory doctor
complete -c alula -n "__alula_is $reading" -l source -x -a 'nvml scenario: replay:'
complete -c alula -n "__alula_is $reading run attach" -l gpu -x
complete -c alula -n "__alula_is $reading replay" -l speed -x
complete -c alula -n "__alula_is $reading replay" -l start -x
complete -c alula -n "__alula_is $reading replay" -l end -x
complete -c alula -n "__alula_is $reading run attach report" -l config -r -F
complete -c alula -n "__alula_is $reading run attach dump stacks profile" -l no-cmdline
complete -c alula -n '__alula_is run attach profile' -l no-record
complete -c alula -n "__alula_is $reading run attach stacks" -l no-color
complete -c alula -n "__alula_is $reading run attach" -l color
complete -c alula -n '__alula_is top watch ps run attach serve record smi dmon pmon memory doctor' -l interval -x
complete -c alula -n '__alula_is watch ps dump stacks ask report compare replay info stat memory doctor' -l json

complete -c alula -n '__alula_is top stacks' -l once
complete -c alula -n '__alula_is top' -l size -x
complete -c alula -n '__alula_is top' -l for -x
complete -c alula -n '__alula_is top stacks' -l filter -x
complete -c alula -n '__alula_is top' -l sort -x -a 'gpu pid user role memory sm cpu host time command steps'
complete -c alula -n '__alula_is top' -l flat
complete -c alula -n '__alula_is top' -l pcie
complete -c alula -n '__alula_is top stacks' -l ascii
complete -c alula -n '__alula_is top' -l utf8
complete -c alula -n '__alula_is top' -l no-mouse
complete -c alula -n '__alula_is top' -l keys -x

complete -c alula -n '__alula_is watch' -l compat
complete -c alula -n '__alula_is watch attach record' -l for -x
complete -c alula -n '__alula_is watch replay' -l fail-on -x -a 'info warning critical'
complete -c alula -n '__alula_is run attach' -l fail-on -x -a 'info warning critical leak data_wait communication'
complete -c alula -n '__alula_is watch run attach' -l model-size -x
complete -c alula -n '__alula_is watch run attach profile record replay' -l quiet
complete -c alula -n '__alula_is watch run attach report' -l verbose
complete -c alula -n '__alula_is watch replay' -l summary
complete -c alula -n '__alula_is watch' -l pcie
complete -c alula -n '__alula_is top watch record run attach' -l no-stacks
complete -c alula -n '__alula_is watch' -l record-scenario -r -F

complete -c alula -n '__alula_is ps' -s a -l all
complete -c alula -n '__alula_is ps' -s u -l user -x -a '(__fish_complete_users)'

complete -c alula -n '__alula_is run attach' -l output-dir -r -F
complete -c alula -n '__alula_is run attach' -l log-every -x
complete -c alula -n '__alula_is run attach' -l tensorboard
complete -c alula -n '__alula_is run attach' -l record -r -F
complete -c alula -n '__alula_is attach' -l wait -x
complete -c alula -n '__alula_is attach dump stacks profile ask memory' -a '(__fish_complete_pids)'
complete -c alula -n '__alula_is dump stacks profile' -s p -l pid -x -a '(__fish_complete_pids)'
complete -c alula -n '__alula_is dump stacks profile' -s s -l subprocesses
complete -c alula -n '__alula_is stacks profile' -s n -l native
complete -c alula -n '__alula_is profile' -l native-all
complete -c alula -n '__alula_is profile' -l blocking
complete -c alula -n '__alula_is profile' -l nonblocking
complete -c alula -n '__alula_is profile' -s o -l output -r -F
complete -c alula -n '__alula_is stacks profile' -s d -l duration -x
complete -c alula -n '__alula_is stacks profile' -s r -l rate -x
complete -c alula -n '__alula_is profile' -s f -l format -x -a 'flamegraph svg speedscope folded pprof chrome alula'
complete -c alula -n '__alula_is profile' -l nolineno
complete -c alula -n '__alula_is stacks profile' -s g -l gil
complete -c alula -n '__alula_is stacks profile' -s i -l idle
complete -c alula -n '__alula_is stacks profile' -s t -l threads
complete -c alula -n '__alula_is profile' -s F -l function
complete -c alula -n '__alula_is profile' -l list
complete -c alula -n '__alula_is profile' -l id -x
complete -c alula -n '__alula_is profile' -l from -r -F
complete -c alula -n '__alula_is dump' -l depth -x
complete -c alula -n '__alula_is stacks' -s l -l lines
complete -c alula -n '__alula_is stacks' -l thread -x
complete -c alula -n '__alula_is stacks' -l window -x
complete -c alula -n '__alula_is stacks' -s w -l whole
complete -c alula -n '__alula_is stacks' -l rows -x
complete -c alula -n '__alula_is stacks' -l sort -x -a 'self total self-time total-time name difference'
complete -c alula -n '__alula_is dump' -l all-ranks
complete -c alula -n '__alula_is dump' -s n -l native
complete -c alula -n '__alula_is dump' -l native-all
complete -c alula -n '__alula_is dump' -l blocking
complete -c alula -n '__alula_is dump' -l nonblocking
complete -c alula -n '__alula_is dump' -l brief
complete -c alula -n '__alula_is dump' -s l -l locals
complete -c alula -n '__alula_is run' -l soak -x
complete -c alula -n '__alula_is run' -l nvtx
complete -c alula -n '__alula_is run attach' -l preset -x -a debug
complete -c alula -n '__alula_is ask' -a 'memory-summary empty-cache'
complete -c alula -n '__alula_is ask' -l timeout -x
complete -c alula -n '__alula_is run attach' -l empty-cache-above -x

complete -c alula -n '__alula_is record' -s o -l output -r -F
complete -c alula -n '__alula_is record' -l force
complete -c alula -n '__alula_is record' -l keep -x
complete -c alula -n '__alula_is record' -l plain -x
complete -c alula -n '__alula_is record' -l full -x
complete -c alula -n '__alula_is record' -l coarse -x
complete -c alula -n '__alula_is record' -l no-wal

complete -c alula -n '__alula_is export' -l format -x -a 'csv json jsonl sqlite'
complete -c alula -n '__alula_is export' -s o -l output -r -F
complete -c alula -n '__alula_is export' -l force
complete -c alula -n '__alula_is export' -l ranks
complete -c alula -n '__alula_is export' -l redact
complete -c alula -n '__alula_is export plot' -l from -x
complete -c alula -n '__alula_is export plot' -l to -x
complete -c alula -n '__alula_is export plot' -l gpu -x
complete -c alula -n '__alula_is plot' -l metric -x -a "(alula help --metrics 2>/dev/null | string replace -rf '^  (\S+).*' '\$1')"
complete -c alula -n '__alula_is plot' -l pid -x
complete -c alula -n '__alula_is plot' -l svg -r -F
complete -c alula -n '__alula_is plot' -l csv -r -F
complete -c alula -n '__alula_is plot' -l ascii

complete -c alula -n '__alula_is serve' -l listen -x
complete -c alula -n '__alula_is serve' -l dcgm-names
complete -c alula -n '__alula_is serve' -l max-processes -x
complete -c alula -n '__alula_is serve' -l pod-resources -r
complete -c alula -n '__alula_is serve' -l insecure-listen

complete -c alula -n '__alula_is stat' -s c -l show-cmd
complete -c alula -n '__alula_is stat' -s f -l show-full-cmd
complete -c alula -n '__alula_is stat' -s u -l show-user
complete -c alula -n '__alula_is stat' -s p -l show-pid
complete -c alula -n '__alula_is stat' -s F -l show-fan
complete -c alula -n '__alula_is stat' -s e -l show-codec -x -a 'enc dec enc,dec'
complete -c alula -n '__alula_is stat' -s P -l show-power -x -a 'draw limit draw,limit'
complete -c alula -n '__alula_is stat' -s a -l show-all
complete -c alula -n '__alula_is stat' -s i -l interval
complete -c alula -n '__alula_is stat' -l id -x
complete -c alula -n '__alula_is stat' -l gpuname-width -x
complete -c alula -n '__alula_is stat' -l no-header
complete -c alula -n '__alula_is stat' -l no-processes
complete -c alula -n '__alula_is stat' -l roles
complete -c alula -n '__alula_is stat' -l mig
complete -c alula -n '__alula_is stat' -l debug
complete -c alula -n '__alula_is stat' -l force-color

complete -c alula -n '__alula_is smi' -l query-gpu -x
complete -c alula -n '__alula_is smi' -l query-compute-apps -x
complete -c alula -n '__alula_is smi' -l help-query-gpu
complete -c alula -n '__alula_is smi' -l help-query-compute-apps
complete -c alula -n '__alula_is smi' -s l -l loop
complete -c alula -n '__alula_is smi' -o lms -l loop-ms
complete -c alula -n '__alula_is smi' -s L -l list-gpus
complete -c alula -n '__alula_is smi dmon' -l format -x -a 'csv csv,noheader csv,noheader,nounits'
complete -c alula -n '__alula_is smi dmon pmon' -s i -l id -x
complete -c alula -n '__alula_is smi dmon pmon' -s f -l filename -r -F
complete -c alula -n '__alula_is dmon pmon' -s d -l delay -x
complete -c alula -n '__alula_is dmon pmon' -s c -l count -x
complete -c alula -n '__alula_is dmon pmon' -s s -l select -x
complete -c alula -n '__alula_is dmon pmon' -s o -l options -x
complete -c alula -n '__alula_is dmon' -l gpm-metrics -x

complete -c alula -n '__alula_is memory attach dump stacks profile' -l tree
complete -c alula -n '__alula_is demo' -l scenario -r -F
complete -c alula -n '__alula_is demo' -l speed -x
complete -c alula -n '__alula_is demo' -l start -x
complete -c alula -n '__alula_is check-config' -l print
complete -c alula -n '__alula_is help' -l metrics
complete -c alula -n '__alula_is help' -l markdown
