// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Callbacks at the C interface: host functions that take their turn in a stream and run in a thread of the
// program, which asks for them with aclrtProcessReport.
#include <pthread.h>

#include <deque>
#include <exception>
#include <map>
#include <optional>
#include <utility>

#include "acl/acl_rt.h"
#include "base/never_destroyed.h"
#include "base/thread_key.h"
#include "runtime/entry.h"
#include "runtime/fork.h"
#include "runtime/observer.h"
#include "runtime/progress.h"
#include "runtime/stream.h"

namespace aclgrad {

struct Callback {
  enum class State { due, returned, abandoned };

  aclrtCallback function;
  void* user_data;
  bool blocks;  // later work of the stream waits for it
  Note note;    // the observer's
  std::shared_ptr<Subscription> subscription;
  State state = State::due;
  uint64_t turn = 0;  // among the callbacks that are due
};

// Of a thread to the callbacks of a stream. Guarded by the progress board.
struct Subscription {
  uint64_t thread = 0;  // its pthread_t
  std::deque<std::shared_ptr<Callback>> due{};
  bool has_ended = false;
  bool thread_waits = false;  // for the stream, so that it runs no callback
};

namespace {

// Those that have not ended, by thread. Guarded by the progress board; never destroyed, as that.
constexpr Singleton<std::multimap<uint64_t, std::shared_ptr<Subscription>>> subscriptions{};

uint64_t this_thread() {
  return static_cast<uint64_t>(pthread_self());
}

// Drops callbacks that have not begun.
template <class Condition>
void drop_where(Subscription& subscription, Condition&& condition) {
  std::erase_if(subscription.due, [&](const std::shared_ptr<Callback>& callback) {
    if (!condition(*callback)) return false;
    callback->state = Callback::State::abandoned;
    return true;
  });
}

// Drops their callbacks that have not begun.
template <class Condition>
void end_where(Condition&& condition) {
  std::erase_if(subscriptions(), [&](const auto& each) {
    Subscription& subscription = *each.second;
    if (!condition(subscription)) return false;
    subscription.has_ended = true;
    drop_where(subscription, [](const Callback&) { return true; });
    return true;
  });
}

// A later thread may get the number of one that has ended. The stream keeps the subscription until it is unsubscribed.
const ThreadKey thread_end([](void*) {
  announce([] {
    end_where([](const Subscription& subscription) { return subscription.thread == this_thread(); });
  });
});

void end_subscriptions_with_this_thread() {
  thread_end.set(&thread_end);
}

Error callback_has_thrown(std::string_view what) {
  return Error(ACL_ERROR_FAILURE, fmt::format("A callback has thrown an exception: {}", what),
               "The program's own function failed.", "Catch exceptions in the callback.");
}

// In the thread of the program, which the callback may end. The stream goes on though it throws: what, is returned.
std::optional<Error> run(Callback& callback) {
  struct Returned {
    Callback& callback;
    ~Returned() {
      announce([this] { callback.state = Callback::State::returned; });
    }
  };
  const Returned returned{callback};
  try {
    runtime_observer->run_callback(callback.note, callback.function, callback.user_data);
    return std::nullopt;
  } catch (const std::exception& exception) {
    return callback_has_thrown(exception.what());
  } catch (...) {
    // No exception of C++: the thread ends itself or was cancelled, which nothing may stop.
    if (std::current_exception() == nullptr) throw;
    return callback_has_thrown("an object that is no std::exception");
  }
}

// The part of a launch that runs on the stream.
void deliver(Queue& queue, const std::shared_ptr<Callback>& callback) {
  announce([&] {
    const Subscription& subscription = *callback->subscription;
    if (subscription.has_ended || (callback->blocks && subscription.thread_waits)) {
      callback->state = Callback::State::abandoned;
    } else {
      static uint64_t last_turn = 0;
      callback->turn = ++last_turn;
      callback->subscription->due.push_back(callback);
    }
  });
  ProgressBoard& board = progress_board();
  std::unique_lock lock(board.mutex);
  if (callback->blocks) {
    board.changed.wait(
        lock, [&] { return callback->state != Callback::State::due || board.exiting || queue.closing(); });
  }
  if (callback->state == Callback::State::abandoned) {
    throw Error(ACL_ERROR_RT_STREAM_NO_CB_REG,
                "A callback was not run: its thread's subscription to the stream has ended, or the thread "
                "waits for the end of the stream.");
  }
}

// The subscription of this thread whose callback is due for longest; null where none is due.
Subscription* longest_due() {
  Subscription* longest = nullptr;
  const auto [first, last] = subscriptions().equal_range(this_thread());
  for (auto each = first; each != last; ++each) {
    Subscription& other = *each->second;
    if (other.due.empty()) continue;
    if (longest == nullptr || other.due.front()->turn < longest->due.front()->turn) longest = &other;
  }
  return longest;
}

std::shared_ptr<Callback> next_callback(Deadline deadline) {
  ProgressBoard& board = progress_board();
  std::unique_lock lock(board.mutex);
  if (!subscriptions().contains(this_thread())) {
    throw Error(ACL_ERROR_RT_THREAD_SUBSCRIBE,
                "The calling thread has not subscribed to the callbacks of a stream.",
                "aclrtSubscribeReport was not called, or with the number of another thread.",
                "Call aclrtSubscribeReport with this thread's number before aclrtProcessReport.");
  }
  Subscription* subscription = nullptr;
  const auto has_news = [&] {
    subscription = longest_due();
    return subscription != nullptr || !subscriptions().contains(this_thread()) || board.exiting;
  };
  if (!wait_until(board.changed, lock, deadline, has_news)) return nullptr;
  if (subscription == nullptr) {
    throw Error(ACL_ERROR_RT_THREAD_SUBSCRIBE,
                "The thread's subscription ended while it waited for callbacks.",
                "aclrtUnSubscribeReport was called, or the stream was destroyed.",
                "End the loop of aclrtProcessReport here.");
  }
  std::shared_ptr<Callback> callback = std::move(subscription->due.front());
  subscription->due.pop_front();
  return callback;
}

}  // namespace

void continue_callbacks_in_child() {
  for (auto& [thread, subscription] : subscriptions()) subscription->due.clear();  // the parent runs them
  end_where([](const Subscription& subscription) { return subscription.thread != this_thread(); });
}

void end_subscription(Stream& stream) {
  announce([&] {
    end_where([&](const Subscription& subscription) { return &subscription == stream.subscription.get(); });
    stream.subscription = nullptr;
  });
}

void note_wait_for_end(Stream& stream, bool waits) {
  announce([&] {
    const std::shared_ptr<Subscription>& subscription = stream.subscription;
    if (subscription == nullptr || subscription->thread != this_thread()) return;
    subscription->thread_waits = waits;
    if (waits) drop_where(*subscription, [](const Callback& callback) { return callback.blocks; });
  });
}

}  // namespace aclgrad

using namespace aclgrad;

aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream) {
  return entry(__func__, [&] {
    const std::shared_ptr<Stream> found = stream_of_any_context("aclrtSubscribeReport", stream);
    end_subscriptions_with_this_thread();
    std::lock_guard lock(progress_board().mutex);
    require(found->subscription == nullptr, ACL_ERROR_RT_STREAM_SUBSCRIBE, {"aclrtSubscribeReport", "stream"},
            "a stream that no thread has subscribed to", "one that has a subscriber");
    const auto subscription = std::make_shared<Subscription>(Subscription{threadId});
    subscriptions().emplace(threadId, subscription);
    found->subscription = subscription;
  });
}

aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream) {
  return entry(__func__, [&] {
    const std::shared_ptr<Stream> found = stream_of_any_context("aclrtUnSubscribeReport", stream);
    announce([&] {
      const std::shared_ptr<Subscription> subscription = found->subscription;
      require(subscription != nullptr && subscription->thread == threadId, ACL_ERROR_RT_THREAD_SUBSCRIBE,
              {"aclrtUnSubscribeReport", "threadId"}, "the thread that has subscribed to the stream",
              threadId);
      end_where([&](const Subscription& each) { return &each == subscription.get(); });
      found->subscription = nullptr;
    });
  });
}

aclError aclrtLaunchCallback(aclrtCallback fn, void* userData, aclrtCallbackBlockType blockType,
                             aclrtStream stream) {
  return entry(__func__, [&] {
    require(fn != nullptr, ACL_ERROR_INVALID_PARAM, {"aclrtLaunchCallback", "fn"}, "a function", "null");
    require(blockType == ACL_CALLBACK_NO_BLOCK || blockType == ACL_CALLBACK_BLOCK, ACL_ERROR_INVALID_PARAM,
            {"aclrtLaunchCallback", "blockType"}, "ACL_CALLBACK_NO_BLOCK or ACL_CALLBACK_BLOCK",
            static_cast<int>(blockType));
    const std::shared_ptr<Queue> queue = queue_of_stream("aclrtLaunchCallback", stream);
    const std::shared_ptr<Stream> found = stream_of_any_context("aclrtLaunchCallback", stream);
    std::unique_lock lock(progress_board().mutex);
    const std::shared_ptr<Subscription> subscription = found->subscription;
    lock.unlock();
    require(subscription != nullptr, ACL_ERROR_RT_STREAM_NO_CB_REG, {"aclrtLaunchCallback", "stream"},
            "a stream that a thread has subscribed to", "one without a subscriber");
    const bool block = blockType == ACL_CALLBACK_BLOCK;
    Note note = runtime_observer->callback_queued(*queue, block);
    const auto callback =
        std::make_shared<Callback>(Callback{fn, userData, block, std::move(note), subscription});
    queue->submit_host([callback](Queue& on) { deliver(on, callback); });
  });
}

aclError aclrtProcessReport(int32_t timeout) {
  std::shared_ptr<Callback> callback;
  const aclError status = entry(__func__, [&] {
    end_subscriptions_with_this_thread();
    callback =
        next_callback(deadline_after(timeout, ACL_ERROR_INVALID_PARAM, {"aclrtProcessReport", "timeout"}));
    if (callback == nullptr) {
      throw Error(ACL_ERROR_RT_REPORT_TIMEOUT,
                  fmt::format("No callback was due within {} milliseconds.", timeout),
                  "The stream has not come to a callback yet, or none was launched.",
                  "Call aclrtProcessReport again until all callbacks have run.");
    }
  });
  if (status != ACL_SUCCESS) return status;
  const std::optional<Error> failure =
      run(*callback);  // not within entry(), which ends the process with the thread
  return entry(__func__, [&] {
    if (failure) throw *failure;
  });
}
