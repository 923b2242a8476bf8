// A file descriptor with one owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace isthmus {

class Descriptor {
  public:
    explicit Descriptor(int fd = -1) : fd_(fd) {}
    /// An error at this close goes unheard: who must hear it releases and closes.
    ~Descriptor() { reset(); }
    Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        reset();
        fd_ = other.release();
        return *this;
    }
    int get() const { return fd_; }
    int release() { return std::exchange(fd_, -1); }
    void reset() {
        if (fd_ >= 0) ::close(release());
    }

  private:
    int fd_;
};

}  // namespace isthmus
