#include "base/progress.h"

#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

namespace pellucid::progress {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPatience{1000};  // what is done sooner is not told of
constexpr std::chrono::milliseconds kBetween{200};    // two writes
constexpr std::string_view kErase = "\r\x1b[2K";

struct Busy {
  std::thread::id thread;
  std::vector<std::string> what;  // the innermost last
  Clock::time_point since;
};

void write_all(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0) return;  // a terminal that is gone
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Somebody edits a line there (readline does so letter by letter), or the shell has the terminal.
bool is_in_use() noexcept {
  if (::tcgetpgrp(STDERR_FILENO) != ::getpgrp()) return true;
  termios settings{};
  return ::tcgetattr(STDERR_FILENO, &settings) == 0 && (settings.c_lflag & ICANON) == 0;
}

std::size_t columns() noexcept {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// At most so many bytes of UTF-8, cut between letters.
std::string clipped(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  text.resize(most);
  return text;
}

// The writer and what it knows; never destroyed, for its thread goes on to the end of the process.
class Line {
 public:
  Line() : process_(::getpid()) {
    std::thread([this] { tell(); }).detach();
  }

  int process() const noexcept { return process_; }

  void begin(std::string what) {
    const std::lock_guard lock(mutex_);
    const auto me = std::this_thread::get_id();
    auto mine = std::ranges::find(busy_, me, &Busy::thread);
    if (mine == busy_.end()) {
      mine = busy_.insert(busy_.end(), Busy{me, {}, Clock::now()});
      if (busy_.size() == 1) wake_.notify_one();
    }
    mine->what.push_back(std::move(what));
  }

  void hide() noexcept {
    const std::lock_guard lock(mutex_);
    erase();
  }

  void end() noexcept {
    const std::lock_guard lock(mutex_);
    const auto mine = std::ranges::find(busy_, std::this_thread::get_id(), &Busy::thread);
    if (mine == busy_.end()) return;
    mine->what.pop_back();
    if (!mine->what.empty()) return;
    busy_.erase(mine);
    if (busy_.empty()) erase();
  }

 private:
  void erase() noexcept {
    if (shown_) write_all(kErase);
    shown_ = false;
  }

  void tell() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (busy_.empty()) {
        wake_.wait(lock);
        continue;
      }
      const auto due = busy_.front().since + kPatience;  // the first began first
      if (Clock::now() < due) {
        wake_.wait_until(lock, due);
        continue;
      }
      if (!is_in_use()) show();
      wake_.wait_for(lock, kBetween);
    }
  }

  void show() {
    const Busy& first = busy_.front();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - first.since).count();
    std::string text = "pellucid: " + std::to_string(seconds) + " s, ";
    if (busy_.size() > 1) text.append("the first of ").append(std::to_string(busy_.size())).append(": ");
    text.append(first.what.front());
    if (first.what.size() > 1) text.append(", ").append(first.what.back());
    write_all(std::string(kErase).append(clipped(std::move(text), columns() - 1)));
    shown_ = true;
  }

  const int process_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Busy> busy_;
  bool shown_ = false;
};

// Of this process: a child that was forked has no writer, and a lock of its parent's may never be let go there.
Line* line = nullptr;

bool has_line() noexcept { return line != nullptr && line->process() == ::getpid(); }

}  // namespace

bool has_reader() noexcept {
  if (::isatty(STDERR_FILENO) != 1) return false;
  const char* terminal = std::getenv("TERM");
  return terminal != nullptr && std::string_view(terminal) != "dumb";
}

void hide() noexcept {
  if (has_line()) line->hide();
}

Work::Work(std::string what) : process_(::getpid()) {
  if (!has_line()) line = new Line;
  line->begin(std::move(what));
}

Work::~Work() {
  if (process_ == ::getpid()) line->end();
}

}  // namespace pellucid::progress
