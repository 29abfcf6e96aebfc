// Where the time of compiling goes, by line of the program: recorded while a profile is on, else one test of a pointer
// for each instruction. It is a tree of places (phases of a compile, functions, their lines) and, for each thread, the
// moments at which the place changed; tables and flame graphs are made of these in Python.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "region/frame.h"

namespace pellucid::region {

class Profile {
 public:
  enum class Kind : std::uint8_t { Phase, Function, Line };
  struct Place {
    int parent = -1;
    Kind kind{};
    std::string phase;             // of a phase: "capture", "backend"
    PyCodeObject* code = nullptr;  // of a function; held by the profile
    int line = 0;                  // of a line
  };
  struct Moment {
    std::int64_t nanoseconds;  // of the steady clock
    int thread;                // 0, 1, … in the order in which they came
    int place;                 // where the thread is from now on; -1: it does not compile
  };

  // The frame on top stands at its instruction `at`.
  void note(Frame& frame);
  void enter(std::string phase);
  void leave();

  const std::vector<Place>& places() const noexcept { return places_; }
  const std::vector<Moment>& moments() const noexcept { return moments_; }

 private:
  struct Thread {
    std::thread::id id;
    std::vector<int> phases;  // that are open, as places
    int now = -1;
  };
  struct Key {
    int parent;
    const void* code;
    int line;
    std::string phase;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const noexcept;
  };

  Thread& thread();
  void move_to(Thread& thread, int place);
  int place_of(Place place);
  int function_place(Frame& frame, int phase);
  int line_place(Frame& frame, int phase);
  int line_at(PyCodeObject* code, int offset);

  std::vector<Place> places_;
  std::unordered_map<Key, int, Hash> place_of_;
  std::unordered_map<PyCodeObject*, std::vector<int>> lines_;  // by code unit; 0: not asked yet
  std::vector<py::Owned<PyCodeObject>> codes_;
  std::deque<Thread> threads_;
  std::vector<Moment> moments_;
};

// The one that records, or null. Written and read with the GIL held.
inline Profile* profile = nullptr;

void start_profile();                     // std::logic_error: one is on already
std::unique_ptr<Profile> stop_profile();  // null: none was on

// A phase of a compile, while it is alive.
class ProfiledPhase {
 public:
  // `of`: which function it is about.
  explicit ProfiledPhase(const char* phase, std::string_view of = {}) : of_(profile) {
    if (of_ != nullptr) of_->enter(std::string(phase).append(of.empty() ? "" : " ").append(of));
  }
  ~ProfiledPhase() {
    if (of_ != nullptr && of_ == profile) of_->leave();  // the program may have ended the profile meanwhile
  }
  ProfiledPhase(const ProfiledPhase&) = delete;
  ProfiledPhase& operator=(const ProfiledPhase&) = delete;

 private:
  Profile* of_;
};

}  // namespace pellucid::region
