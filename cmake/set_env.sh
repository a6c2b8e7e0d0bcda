# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
# Points programs and build files at this prefix: source it. Works in bash and zsh, which name the file that they source,
# and in dash, busybox's sh and mksh, which hold it open meanwhile.

# Prints the prefix of the file $1: set_env.sh, bin/setenv.bash, or a link to one of them.
_aclgrad_prefix() (
  [ -n "$1" ] || exit 1
  unset CDPATH # with it, cd prints where it goes
  for folder in "$(dirname "$1")" "$(dirname "$1")/.." "$(dirname "$(readlink -f "$1")")"; do
    [ -e "$folder/lib64/libaclgrad.so" ] && cd "$folder" && pwd && exit
  done
  exit 1
)

# Prints the list of folders $2 with the folder $1 in front, and only there.
_aclgrad_first() (
  rest=:$2:
  while :; do
    case $rest in
      *":$1:"*) rest=${rest%%":$1:"*}:${rest#*":$1:"} ;;
      *) break ;;
    esac
  done
  rest=${rest#:}
  rest=${rest%:}
  printf '%s\n' "$1${rest:+:$rest}"
)

_aclgrad_file=
if [ -n "${BASH_VERSION:-}" ]; then
  _aclgrad_file=${BASH_SOURCE:-}
elif [ -n "${ZSH_VERSION:-}" ]; then
  eval '_aclgrad_file=${(%):-%x}'
else
  _aclgrad_shell=$(exec sh -c 'echo "$PPID"') # not $$, which a subshell has from its parent
  for _aclgrad_open in /proc/"$_aclgrad_shell"/fd/*; do
    _aclgrad_open=$(readlink "$_aclgrad_open") || continue
    case $_aclgrad_open in */set_env.sh) _aclgrad_file=$_aclgrad_open ;; esac
  done
fi
_aclgrad_home=$(_aclgrad_prefix "$_aclgrad_file") || _aclgrad_home=

if [ -n "$_aclgrad_home" ]; then
  export ASCEND_HOME_PATH="$_aclgrad_home"
  export ASCEND_TOOLKIT_HOME="$ASCEND_HOME_PATH"
  export ASCEND_OPP_PATH="$ASCEND_HOME_PATH/opp"
  LD_LIBRARY_PATH=$(_aclgrad_first "$ASCEND_HOME_PATH/lib64" "${LD_LIBRARY_PATH:-}")
  export LD_LIBRARY_PATH
else
  echo "set_env.sh: expected a shell that tells which file it sources (bash, zsh, dash), and lib64/libaclgrad.so beside" \
    "it; got '${_aclgrad_file:-no file}'. Nothing was set." >&2
fi

unset -f _aclgrad_prefix _aclgrad_first
unset _aclgrad_file _aclgrad_shell _aclgrad_open
case $_aclgrad_home in
  '') unset _aclgrad_home && return 1 ;;
  *) unset _aclgrad_home ;;
esac
