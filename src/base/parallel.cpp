// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include "base/parallel.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bitset>
#include <cfenv>
#include <chrono>
#include <climits>
#include <cstdint>
#include <exception>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/environment.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/never_destroyed.h"
#include "base/processors.h"
#include "base/signals.h"
#include "base/thread_limit.h"

namespace aclgrad {
namespace {

// More threads than processors are of use to try things out only.
constexpr int kMaxThreadsPerProcessor = 8;

std::atomic<int> requested_threads{0};
thread_local int max_threads_here = INT_MAX;

// oneTBB's threads have been started, or are being started.
std::atomic<bool> has_pool{false};

// This is the child of a process that had them, and there they stayed: what oneTBB knows of them is wrong here, and its
// locks may be held for ever. Or the process exits, and oneTBB with it.
std::atomic<bool> pool_is_gone{false};

std::atomic<int> pool_users{0};
thread_local int pool_uses_of_thread = 0;

// While an object lives that converts to true, its thread may use oneTBB.
class PoolUse {
 public:
  PoolUse() {
    ++pool_users;
    ++pool_uses_of_thread;
  }
  ~PoolUse() {
    --pool_uses_of_thread;
    if (--pool_users == 0 || pool_is_gone) pool_users.notify_all();
  }
  PoolUse(const PoolUse&) = delete;
  PoolUse& operator=(const PoolUse&) = delete;

  explicit operator bool() const { return !pool_is_gone; }
};

// When the process exits, other threads may be in kernels or about to begin some. oneTBB's exit handlers run after those
// of this library, which depends on it: so the latter wait. Nobody waits for a loop of the exiting thread itself, which a
// signal may have interrupted.
struct PoolEnd {
  ~PoolEnd() {
    if (process != getpid()) return;  // a child of _Fork, for which nothing was prepared
    pool_is_gone = true;
    for (int left = pool_users; left > pool_uses_of_thread; left = pool_users) pool_users.wait(left);
  }
  pid_t process = getpid();
};

PoolEnd pool_end;

// Where several threads come first they find the same, so that none has to wait: a fork leaves nobody to wait for.
int processors_at_start() {
  static std::atomic<int> known{0};
  int count = known.load(std::memory_order_relaxed);
  if (count == 0) known.store(count = processors(), std::memory_order_relaxed);
  return count;
}

int max_thread_count() {
  return kMaxThreadsPerProcessor * processors_at_start();
}

int find_starting_thread_count() {
  const int wanted = Environment::get().num_threads;
  if (wanted == 0) return processors_at_start();
  if (wanted > max_thread_count()) {
    report_wrong_value(
        "ACLGRAD_NUM_THREADS", std::to_string(wanted),
        fmt::format("at most {} threads for each of the {} processors that the process may use",
                    kMaxThreadsPerProcessor, processors_at_start()),
        std::to_string(max_thread_count()));
  }
  return std::min(wanted, max_thread_count());
}

int starting_thread_count() {
  static std::atomic<int> known{0};
  int count = known.load(std::memory_order_relaxed);
  if (count == 0) known.store(count = find_starting_thread_count(), std::memory_order_relaxed);
  return count;
}

// Bytes of address space that the process has already.
uint64_t address_space_in_use() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Bytes of address space for one thread: its stack, and up to two heaps of the C library once it asks for memory.
uint64_t address_space_of_thread() {
  constexpr uint64_t kHeap = uint64_t{64} << 20;
  size_t stack = 0;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) == 0) {
    pthread_attr_getstacksize(&attributes, &stack);
    pthread_attr_destroy(&attributes);
  }
  return stack + 2 * kHeap;
}

// Half of a limited address space is left to what else the process does.
int threads_within_address_space(int wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return wanted;
  const uint64_t used = std::min<uint64_t>(address_space_in_use(), limit.rlim_cur);
  const uint64_t threads = (limit.rlim_cur - used) / 2 / address_space_of_thread();
  return static_cast<int>(std::min<uint64_t>(threads, static_cast<uint64_t>(wanted)));
}

// How many threads start and live at once, at most `wanted`.
int threads_that_start(int wanted) {
  std::promise<void> all_have_started;
  const std::shared_future<void> end = all_have_started.get_future().share();
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(wanted));
  try {
    while (static_cast<int>(threads.size()) < wanted) threads.emplace_back([end] { end.wait(); });
  } catch (const std::exception&) {  // the others are enough
  }
  all_have_started.set_value();
  for (std::thread& thread : threads) thread.join();
  return static_cast<int>(threads.size());
}

// How many threads kernels may have besides the one that calls, at most `wanted`. Of a limited number a third is left to
// others, such as those of streams.
int available_threads(int wanted) {
  const int affordable = threads_within_address_space(wanted);
  const int started = threads_that_start(affordable + (affordable + 1) / 2);
  return std::min(affordable, 2 * started / 3);
}

using ThreadKeys = std::bitset<PTHREAD_KEYS_MAX>;

// Those under which the calling thread has values.
ThreadKeys keys_with_values() {
  ThreadKeys keys;
  for (size_t key = 0; key < keys.size(); ++key)
    keys[key] = pthread_getspecific(static_cast<pthread_key_t>(key)) != nullptr;
  return keys;
}

// The keys under which oneTBB keeps values for threads that used it. The end of such a thread takes locks of oneTBB.
ThreadKeys keys_of_pool;

void find_keys_of_pool() {
  std::exception_ptr out_of_memory;
  try {
    std::thread([&]() noexcept {
      const ThreadKeys before = keys_with_values();
      try {
        tbb::this_task_arena::isolate([] {});
        keys_of_pool = keys_with_values() & ~before;
      } catch (const std::bad_alloc&) {
        out_of_memory = std::current_exception();
      }
    }).join();
  } catch (const std::system_error&) {  // where no thread can be started, oneTBB has none either
  }
  if (out_of_memory) std::rethrow_exception(out_of_memory);
}

// Lets the arena's threads meet, so that oneTBB has started all of them, which are then there for good.
void gather(tbb::task_arena& arena, int threads) {
  // For a machine with more to do than processors; mostly they are there at once.
  constexpr auto kPatience = std::chrono::milliseconds(500);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  std::atomic<int> present{0};
  const auto wait_for_all = [&](int) {
    ++present;
    while (present < threads && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  };
  arena.execute([&] { tbb::parallel_for(0, threads, wait_for_all, tbb::simple_partitioner()); });
}

// oneTBB ends the process where it cannot start a thread that it counts on. So it counts on those only that can be had
// when it is first used, and takes them then. Initialised here and not by the first loop: one that fails in that makes
// all who come later wait for ever.
std::shared_ptr<tbb::task_arena> make_arena(int wanted) {
  const SignalsBlocked signals_blocked;
  if (keys_of_pool.none()) find_keys_of_pool();
  const int threads = 1 + available_threads(wanted - 1);
  if (threads < wanted)
    log(LogLevel::warning, "Fewer threads can be started than there are processors: kernels are slower.");
  auto arena = std::make_shared<tbb::task_arena>(threads);
  arena->initialize();
  gather(*arena, threads);
  return arena;
}

// The arena of the current thread count. A call keeps the arena that it started with alive, so that the count
// may change at any time. Never destroyed: kernels may still run while the process exits.
std::shared_ptr<tbb::task_arena> arena_of(int threads) {
  struct State {
    std::mutex mutex;
    std::shared_ptr<tbb::task_arena> arena;
    std::unique_ptr<tbb::global_control> more_threads_than_processors;
    int threads = 0;
  };
  static NeverDestroyed<State> only_state;
  State& state = *only_state;
  std::lock_guard lock(state.mutex);
  if (state.arena == nullptr || state.threads != threads) {
    if (threads > tbb::this_task_arena::max_concurrency()) {
      state.more_threads_than_processors = std::make_unique<tbb::global_control>(
          tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads));
    }
    state.arena = make_arena(threads);
    state.threads = threads;
  }
  return state.arena;
}

// As long as one lives, the thread rounds, and treats denormal numbers, as another did.
class RoundingAs {
 public:
  explicit RoundingAs(const std::fenv_t& other) {
    std::fegetenv(&before_);
    std::fesetenv(&other);
  }
  ~RoundingAs() { std::fesetenv(&before_); }
  RoundingAs(const RoundingAs&) = delete;
  RoundingAs& operator=(const RoundingAs&) = delete;

 private:
  std::fenv_t before_;
};

}  // namespace

int thread_count() {
  if (pool_is_gone.load(std::memory_order_relaxed)) return 1;
  const int requested = requested_threads.load(std::memory_order_relaxed);
  return std::min(max_threads_here, requested > 0 ? requested : starting_thread_count());
}

ThreadLimit::ThreadLimit(int most) : before_(std::exchange(max_threads_here, std::max(most, 1))) {}

ThreadLimit::~ThreadLimit() {
  max_threads_here = before_;
}

void set_thread_count(int count) {
  requested_threads.store(std::min(count, max_thread_count()), std::memory_order_relaxed);
}

void continue_parallel_in_child() {
  pool_end.process = getpid();
  pool_users = 0;
  if (!has_pool) return;
  pool_is_gone = true;
  // So that the thread can end here.
  for (size_t key = 0; key < keys_of_pool.size(); ++key) {
    if (keys_of_pool[key]) pthread_setspecific(static_cast<pthread_key_t>(key), nullptr);
  }
}

namespace detail {

bool run_parallel(int64_t count, void (*body)(const void*, int64_t), const void* context) {
  const PoolUse pool;
  if (!pool) return false;
  has_pool = true;  // before any lock is taken for it
  const int threads = thread_count();
  const auto arena = arena_of(threads);
  std::fenv_t rounding_of_caller;
  std::fegetenv(&rounding_of_caller);
  // Isolated: a thread that waits for its own loop must not pick up another stream's work, which would make a
  // small operator last as long as a large one beside it.
  arena->execute([&] {
    tbb::this_task_arena::isolate([&] {
      tbb::parallel_for(tbb::blocked_range<int64_t>(0, count), [&](const auto& range) {
        const ThreadLimit limit(threads);
        const RoundingAs caller(rounding_of_caller);
        for (int64_t i = range.begin(); i < range.end(); ++i) body(context, i);
        hwy::FlushStream();
      });
    });
  });
  return true;
}

}  // namespace detail
}  // namespace aclgrad
