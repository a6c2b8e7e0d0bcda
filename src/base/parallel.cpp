#include "base/parallel.h"

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/environment.h"
#include "base/log.h"
#include "base/never_destroyed.h"

namespace aclgrad {
namespace {

int starting_thread_count() {
  const int wanted = Environment::get().num_threads;
  return wanted > 0 ? wanted : tbb::this_task_arena::max_concurrency();
}

std::atomic<int> requested_threads{0};

// How many threads the process may have besides this one, at most `wanted`: the number that start and live at once.
int available_threads(int wanted) {
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

}  // namespace

int thread_count() {
  const int requested = requested_threads.load(std::memory_order_relaxed);
  if (requested > 0) return requested;
  static const int starting = starting_thread_count();
  return starting;
}

void set_thread_count(int count) {
  requested_threads.store(count, std::memory_order_relaxed);
}

namespace detail {

void run_parallel(int64_t count, void (*body)(const void*, int64_t), const void* context) {
  const auto arena = arena_of(thread_count());
  // Isolated: a thread that waits for its own loop must not pick up another stream's work, which would make a
  // small operator last as long as a large one beside it.
  arena->execute([&] {
    tbb::this_task_arena::isolate(
        [&] { tbb::parallel_for(int64_t{0}, count, [&](int64_t i) { body(context, i); }); });
  });
}

}  // namespace detail
}  // namespace aclgrad
