// What GCC's C++ library calls where it was built for a newer glibc than ours is to run on.
#include <cstdint>
#include <ctime>
#include <pthread.h>
#include <sys/random.h>

extern "C" {

/// glibc 2.32. "There may be several threads": reference counts are always atomic.
char __libc_single_threaded = 0;

/// glibc 2.36.
std::uint32_t arc4random() {
  std::uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}

/// glibc 2.30. Where somebody sets the clock meanwhile it ends too early or late.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* end) {
  constexpr long kSecond = 1'000'000'000;
  timespec now{};
  timespec until{};
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += end->tv_sec - now.tv_sec;
  until.tv_nsec += end->tv_nsec - now.tv_nsec;
  if (until.tv_nsec >= kSecond) {
    ++until.tv_sec;
    until.tv_nsec -= kSecond;
  } else if (until.tv_nsec < 0) {
    --until.tv_sec;
    until.tv_nsec += kSecond;
  }
  return pthread_cond_timedwait(condition, mutex, &until);
}

}  // extern "C"
