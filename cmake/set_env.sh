# Points programs and build files at this prefix. Source it from bash or zsh.
ASCEND_HOME_PATH=$(cd "$(dirname "${BASH_SOURCE[0]:-$0}")" && pwd)
export ASCEND_HOME_PATH
export ASCEND_TOOLKIT_HOME=$ASCEND_HOME_PATH
export ASCEND_OPP_PATH=$ASCEND_HOME_PATH/opp
export LD_LIBRARY_PATH=$ASCEND_HOME_PATH/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
