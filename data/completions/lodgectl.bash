# SPDX-License-Identifier: GPL-3.0-or-later
# bash completion for lodgectl(1). Verbs and options are asked of the program itself.

_lodgectl_names() {
    local words=() i
    for ((i = 2; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        -c | --connect) words=(--connect "${COMP_WORDS[i + 1]}") ;;
        --connect=*) words=("${COMP_WORDS[i]}") ;;
        esac
    done
    "${COMP_WORDS[0]}" list --names "${words[@]}" 2>/dev/null
}

_lodgectl() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} IFS=$'\n'
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" --help 2>/dev/null |
            sed -n 's/^  \([a-z]\{1,\}\) .*/\1/p')" -- "$current")
        return
    fi
    case $before in
    --kernel | --initrd | --from | --serial | -k | -i | -f)
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
        ;;
    esac
    if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" "${COMP_WORDS[1]}" --help \
            2>/dev/null | grep -oE -- '--[a-z-]+')" -- "$current")
        return
    fi
    case ${COMP_WORDS[1]} in
    list | start | stop | destroy | delete | console | top | timers | locks)
        # A name may hold spaces and quotes.
        local name
        while read -r name; do
            [[ $name == "$current"* ]] && COMPREPLY+=("$(printf '%q' "$name")")
        done < <(_lodgectl_names)
        ;;
    esac
}

complete -F _lodgectl lodgectl
