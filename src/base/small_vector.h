// A vector of plain values whose first N lie in the object itself: for what is filled and thrown away on hot paths.
#pragma once
#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>

namespace pellucid {

template <class T, std::size_t N>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  SmallVector() noexcept {}  // inline_ stays uninitialised
  SmallVector(std::size_t count, T value) {
    grow(count);
    std::fill_n(data_, count, value);
    size_ = count;
  }
  SmallVector(const SmallVector&) = delete;
  SmallVector& operator=(const SmallVector&) = delete;

  void push_back(T value) {
    if (size_ == capacity_) grow(2 * size_);
    data_[size_++] = value;
  }
  void pop_back() noexcept { --size_; }
  void clear() noexcept { size_ = 0; }
  T& back() noexcept { return data_[size_ - 1]; }
  const T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + size_; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + size_; }

 private:
  void grow(std::size_t wanted) {
    if (wanted <= capacity_) return;
    std::unique_ptr<T[]> more(new T[wanted]);
    std::copy_n(data_, size_, more.get());
    heap_ = std::move(more);
    data_ = heap_.get();
    capacity_ = wanted;
  }

  T* data_ = inline_;
  std::size_t size_ = 0, capacity_ = N;
  std::unique_ptr<T[]> heap_;
  T inline_[N];
};

}  // namespace pellucid
