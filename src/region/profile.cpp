#include "region/profile.h"

#include <functional>
#include <stdexcept>
#include <utility>

#include "base/events.h"
#include "py/traceback.h"
#include "region/instruction_listener.h"

namespace pellucid::region {

std::size_t Profile::Hash::operator()(const Key& key) const noexcept {
  std::size_t hash = std::hash<const void*>{}(key.code) * 31 + static_cast<std::size_t>(key.parent);
  hash = hash * 1'000'003 + static_cast<std::size_t>(key.line);
  return key.phase.empty() ? hash : hash ^ std::hash<std::string>{}(key.phase);
}

Profile::Thread& Profile::thread() {
  const auto id = std::this_thread::get_id();
  for (Thread& known : threads_) {
    if (known.id == id) return known;
  }
  return threads_.emplace_back(Thread{id, {}, -1});
}

void Profile::move_to(Thread& thread, int place) {
  if (thread.now == place) return;
  thread.now = place;
  int number = 0;
  while (&threads_[static_cast<std::size_t>(number)] != &thread) ++number;
  moments_.push_back({events::now(), number, place});
}

int Profile::place_of(Place place) {
  const auto [found, fresh] =
      place_of_.try_emplace(Key{place.parent, place.code, place.line, place.phase}, static_cast<int>(places_.size()));
  if (fresh) {
    if (place.code != nullptr) codes_.push_back(py::Owned<PyCodeObject>::share(place.code));
    places_.push_back(std::move(place));
  }
  return found->second;
}

int Profile::line_at(PyCodeObject* code, int offset) {
  auto& lines = lines_[code];  // places of this code are there, which hold it
  const auto unit = static_cast<std::size_t>(offset) / 2;
  if (lines.size() <= unit) lines.resize(unit + 1);
  if (lines[unit] == 0) lines[unit] = py::line_of(code, offset);
  return lines[unit];
}

namespace {

// Frames of our own stand for the line that led to them.
Frame* shown(Frame* frame) {
  while (frame != nullptr && frame->hidden) frame = frame->back.get();
  return frame;
}

}  // namespace

int Profile::function_place(Frame& frame, int phase) {
  if (frame.profiled >= 0) return frame.profiled;
  Frame* caller = shown(frame.back.get());
  const int parent = caller == nullptr ? phase : line_place(*caller, phase);
  return frame.profiled = place_of({.parent = parent, .kind = Kind::Function, .code = frame.code.get()});
}

int Profile::line_place(Frame& frame, int phase) {
  const int parent = function_place(frame, phase);
  return place_of({.parent = parent, .kind = Kind::Line, .line = line_at(frame.code.get(), frame.at)});
}

void Profile::note(Frame& frame) {
  Frame* seen = shown(&frame);
  if (seen == nullptr) return;
  Thread& here = thread();
  move_to(here, line_place(*seen, here.phases.empty() ? -1 : here.phases.back()));
}

void Profile::enter(std::string phase) {
  Thread& here = thread();
  const int parent = here.now;  // a backend may compile, inside of a line of the program
  here.phases.push_back(place_of({.parent = parent, .kind = Kind::Phase, .phase = std::move(phase)}));
  move_to(here, here.phases.back());
}

void Profile::leave() {
  Thread& here = thread();
  if (here.phases.empty()) return;
  const int parent = places_[static_cast<std::size_t>(here.phases.back())].parent;
  here.phases.pop_back();
  move_to(here, parent);
}

void start_profile() {
  if (profile != nullptr) throw std::logic_error("a profile is being recorded already");
  profile = new Profile;
  note_who_watches();
}

std::unique_ptr<Profile> stop_profile() {
  std::unique_ptr<Profile> stopped(std::exchange(profile, nullptr));
  note_who_watches();
  return stopped;
}

}  // namespace pellucid::region
