. "$(dirname "${BASH_SOURCE[0]:-$0}")/../set_env.sh"
