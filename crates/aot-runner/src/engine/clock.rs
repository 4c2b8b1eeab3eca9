//! The time that the rules are given: the moment at which this process began, and what has passed since on a clock that
//! nobody sets. Setting the machine's clock neither ends a loop nor lets it run past its time. Time asleep does not count:
//! the monotonic clock stands still while the machine is suspended.

use std::fmt;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

pub(crate) struct Clock {
    began: Timestamp,
    elapsed: Box<dyn Fn() -> Duration>,
}

impl Clock {
    pub fn start() -> Clock {
        let began = Instant::now();
        Clock::new(Timestamp::now(), move || began.elapsed())
    }

    pub fn new(began: Timestamp, elapsed: impl Fn() -> Duration + 'static) -> Clock {
        Clock { began, elapsed: Box::new(elapsed) }
    }

    pub fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from((self.elapsed)()).unwrap_or(SignedDuration::MAX);
        self.began.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    /// How long it takes until then; nothing if that has passed.
    pub fn until(&self, moment: Timestamp) -> Duration {
        Duration::try_from(self.now().duration_until(moment)).unwrap_or(Duration::ZERO)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").field("began", &self.began).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    /// Whatever the calendar says later: only what has passed counts.
    #[test]
    fn the_time_of_a_loop_is_its_beginning_and_what_has_passed() {
        let began: Timestamp = "2026-11-15T10:00:00Z".parse().expect("a moment");
        let passed = Rc::new(Cell::new(Duration::ZERO));
        let source = Rc::clone(&passed);
        let clock = Clock::new(began, move || source.get());
        let wall_time = began + SignedDuration::from_secs(3600);
        assert_eq!((clock.now(), clock.until(wall_time)), (began, Duration::from_secs(3600)));
        passed.set(Duration::from_millis(1500));
        assert_eq!(clock.now(), began + SignedDuration::from_millis(1500));
        passed.set(Duration::from_secs(7200));
        assert_eq!(clock.until(wall_time), Duration::ZERO, "a moment that has passed is not waited for");
    }

    #[test]
    fn the_clock_of_a_process_goes_forward_from_the_calendar() {
        let before = Timestamp::now();
        let clock = Clock::start();
        let (first, second) = (clock.now(), clock.now());
        assert!(before <= first && first <= second);
        assert!(first.duration_since(before) < SignedDuration::from_secs(60));
    }
}
