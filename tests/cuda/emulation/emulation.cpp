// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>
#include <pthread.h>

#include <boost/context/detail/fcontext.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulation {
namespace {

namespace context = boost::context::detail;

constexpr unsigned kWarp = 32;
constexpr size_t kStackBytes = size_t{128} << 10;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "Emulated CUDA: %s, in block %u, warp %u.\n", what, blockIdx.x, threadIdx.x / kWarp);
  std::abort();
}

enum class State { ready, at_warp, at_block, done };

struct Fiber {
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  context::fcontext_t context = nullptr;
  void* fake_stack = nullptr;  // the sanitizer's
  State state = State::done;
  unsigned mask = 0;       // of the exchange that it waits for
  unsigned exchanges = 0;  // that it has been part of
  alignas(16) char given[2][16] = {};
};

// The sanitizer must be told on which stack the program is.
struct Stack {
  const void* bottom = nullptr;
  size_t size = 0;
};

void leave_for([[maybe_unused]] void** fake_stack, [[maybe_unused]] const Stack& stack) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(fake_stack, stack.bottom, stack.size);
#endif
}

void arrive([[maybe_unused]] void* fake_stack, [[maybe_unused]] Stack* left = nullptr) {
#if defined(__SANITIZE_ADDRESS__)
  const void* bottom = nullptr;
  size_t size = 0;
  __sanitizer_finish_switch_fiber(fake_stack, &bottom, &size);
  if (left != nullptr) *left = {bottom, size};
#endif
}

class Block {
 public:
  void run(unsigned threads, const std::function<void()>& body, bool reversed) {
    body_ = &body;
    reversed_ = reversed;
    while (fibers_.size() < threads) fibers_.emplace_back();
    count_ = threads;
    for (unsigned i = 0; i < threads; ++i) {
      Fiber& fiber = fibers_[i];
      fiber.context = context::make_fcontext(fiber.stack.get() + kStackBytes, kStackBytes, &Block::start);
      fiber.fake_stack = nullptr;
      fiber.state = State::ready;
      fiber.exchanges = 0;
    }
    const unsigned warps = (threads + kWarp - 1) / kWarp;
    do {
      for (unsigned i = 0; i < warps; ++i) run_warp(reversed ? warps - 1 - i : i);
    } while (release_block());
  }

  // Called in a fiber: gives the word to the scheduler until the state is `ready` again.
  void wait(State state) {
    Fiber& fiber = current();
    fiber.state = state;
    leave_for(&fiber.fake_stack, scheduler_stack_);
    scheduler_ = context::jump_fcontext(scheduler_, nullptr).fctx;
    arrive(fiber.fake_stack, &scheduler_stack_);
  }

  Fiber& current() { return fibers_[threadIdx.x]; }
  Fiber& lane_of_warp(unsigned lane) { return fibers_[threadIdx.x / kWarp * kWarp + lane]; }
  std::vector<char> shared;

 private:
  static void start(context::transfer_t from);

  void run_warp(unsigned warp) {
    const unsigned first = warp * kWarp;
    const unsigned lanes = std::min(kWarp, count_ - first);
    do {
      for (unsigned i = 0; i < lanes; ++i) {
        const unsigned thread = first + (reversed_ ? lanes - 1 - i : i);
        if (fibers_[thread].state == State::ready) resume(thread);
      }
    } while (release_warp(first, lanes));
  }

  void resume(unsigned thread) {
    threadIdx = dim3(thread, 0, 0);
    Fiber& fiber = fibers_[thread];
    leave_for(&scheduler_fake_stack_, {fiber.stack.get(), kStackBytes});
    fiber.context = context::jump_fcontext(fiber.context, this).fctx;
    arrive(scheduler_fake_stack_);
  }

  // Lets those lanes go on whose exchange is complete. False where nobody waits for one.
  bool release_warp(unsigned first, unsigned lanes) {
    bool waits = false, released = false;
    for (unsigned i = 0; i < lanes; ++i) {
      Fiber& fiber = fibers_[first + i];
      if (fiber.state != State::at_warp) continue;
      waits = true;
      if (!is_complete(first, lanes, fiber.mask)) continue;
      for (unsigned k = 0; k < lanes; ++k) {
        if (fiber.mask >> k & 1) fibers_[first + k].state = State::ready;
      }
      released = true;
    }
    if (waits && !released) fail("lanes of a shuffle do not meet");
    return released;
  }

  bool is_complete(unsigned first, unsigned lanes, unsigned mask) const {
    for (unsigned k = 0; k < kWarp; ++k) {
      if ((mask >> k & 1) == 0) continue;
      if (k >= lanes || fibers_[first + k].state != State::at_warp || fibers_[first + k].mask != mask)
        return false;
    }
    return true;
  }

  // All threads must come to a barrier, or none.
  bool release_block() {
    unsigned waiting = 0;
    for (unsigned i = 0; i < count_; ++i) waiting += fibers_[i].state == State::at_block;
    if (waiting == 0) return false;
    if (waiting != count_) fail("threads of a block do not meet at a barrier");
    for (unsigned i = 0; i < count_; ++i) fibers_[i].state = State::ready;
    return true;
  }

  const std::function<void()>* body_ = nullptr;
  bool reversed_ = false;
  unsigned count_ = 0;
  std::vector<Fiber> fibers_;
  context::fcontext_t scheduler_ = nullptr;
  void* scheduler_fake_stack_ = nullptr;
  Stack scheduler_stack_;
};

Block& block() {
  static Block& block = *new Block;
  return block;
}

void Block::start(context::transfer_t from) {
  Block& self = *static_cast<Block*>(from.data);
  self.scheduler_ = from.fctx;
  arrive(nullptr, &self.scheduler_stack_);
  (*self.body_)();
  self.current().state = State::done;
  leave_for(nullptr, self.scheduler_stack_);
  context::jump_fcontext(self.scheduler_, nullptr);
}

std::mutex& grid_mutex() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

bool run_reversed = false;

}  // namespace

void set_reversed(bool reversed) {
  run_reversed = reversed;
}

void run_grid(unsigned blocks, unsigned threads, size_t shared_bytes, const std::function<void()>& thread) {
  const std::lock_guard lock(grid_mutex());
  gridDim = dim3(blocks);
  blockDim = dim3(threads);
  block().shared.assign(shared_bytes, '\xA5');
  block().shared.shrink_to_fit();
  for (unsigned i = 0; i < blocks; ++i) {
    blockIdx = dim3(run_reversed ? blocks - 1 - i : i, 0, 0);
    block().run(threads, thread, run_reversed);
  }
}

void wait_for_block() {
  block().wait(State::at_block);
}

unsigned lane() {
  return threadIdx.x % kWarp;
}

void* shared_memory() {
  return block().shared.data();
}

const void* exchange(unsigned mask, const void* value, size_t bytes, unsigned source) {
  if (bytes > sizeof Fiber::given[0]) fail("a shuffle of more than 16 bytes");
  if ((mask >> lane() & 1) == 0 || (mask >> source & 1) == 0)
    fail("a shuffle with a lane outside of its mask");
  Fiber& fiber = block().current();
  fiber.mask = mask;
  // A lane can be ahead of another by one exchange at most.
  const unsigned slot = fiber.exchanges++ % 2;
  std::memcpy(fiber.given[slot], value, bytes);
  block().wait(State::at_warp);
  return block().lane_of_warp(source).given[slot];
}

}  // namespace emulation
