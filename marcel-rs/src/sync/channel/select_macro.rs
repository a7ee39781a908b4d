//! `select!`: the arms, the choice and the code of the chosen arm, in one expression.

/// Waits for the first of several sends and receives on [channels](crate::sync::channel), and runs the code that
/// belongs to it.
///
/// ```
/// use marcel::sync::channel;
/// use std::time::Duration;
///
/// let (numbers, some) = channel::bounded(1);
/// let (_keep, none) = channel::unbounded::<String>();
/// for _ in 0..2 {
///     marcel::select! {
///         send(numbers, 5) -> sent => sent.unwrap(),
///         recv(some) -> number => assert_eq!(number, Ok(5)),
///         recv(none) -> _text => unreachable!(),
///     }
/// }
/// let heard = marcel::select! {
///     recv(none) -> text => text.ok(),
///     default(Duration::from_millis(1)) => None,
/// };
/// assert_eq!(heard, None);
/// ```
///
/// An arm is `recv(receiver) -> result => code`, with a `Result<T, RecvError>`, or `send(sender, message) -> result =>
/// code`, with a `Result<(), SendError<T>>`. Messages to send are evaluated in any case, and dropped if another arm is
/// chosen. Among several possible arms the choice is random.
///
/// Without `default` it waits. `default => code` runs if no arm is possible now, `default(time) => code` if no arm
/// became possible within that time.
///
/// # Panics
/// As [`select`](fn@crate::sync::channel::select).
#[macro_export]
macro_rules! select {
    // All arms have been read: `[index arm (how it is made) (pattern) (code)]` for each.
    (@arms $arms:tt $count:tt) => {
        $crate::select!(@run $arms (select) {})
    };
    (@arms $arms:tt $count:tt , $($rest:tt)*) => {
        $crate::select!(@arms $arms $count $($rest)*)
    };
    (@arms $arms:tt $count:tt default => $code:expr $(,)?) => {
        $crate::select!(@run $arms (try_select) { $code })
    };
    (@arms $arms:tt $count:tt default($time:expr) => $code:expr $(,)?) => {
        $crate::select!(@run $arms (select_timeout $time) { $code })
    };
    (@arms [$($arms:tt)*] ($count:expr)
        recv($receiver:expr) -> $result:pat => $code:block $($rest:tt)*) => {
        $crate::select!(@arms
            [$($arms)* [($count) arm (($receiver).receiving()) ($result) $code]] ($count + 1) $($rest)*)
    };
    (@arms [$($arms:tt)*] ($count:expr)
        recv($receiver:expr) -> $result:pat => $code:expr $(, $($rest:tt)*)?) => {
        $crate::select!(@arms
            [$($arms)* [($count) arm (($receiver).receiving()) ($result) $code]] ($count + 1) $($($rest)*)?)
    };
    (@arms [$($arms:tt)*] ($count:expr)
        send($sender:expr, $message:expr) -> $result:pat => $code:block $($rest:tt)*) => {
        $crate::select!(@arms
            [$($arms)* [($count) arm (($sender).sending($message)) ($result) $code]] ($count + 1)
            $($rest)*)
    };
    (@arms [$($arms:tt)*] ($count:expr)
        send($sender:expr, $message:expr) -> $result:pat => $code:expr $(, $($rest:tt)*)?) => {
        $crate::select!(@arms
            [$($arms)* [($count) arm (($sender).sending($message)) ($result) $code]] ($count + 1)
            $($($rest)*)?)
    };
    (@run [$([($index:expr) $arm:ident ($made:expr) ($result:pat) $code:expr])*]
        ($how:ident $($time:expr)?) { $($default:expr)? }) => {{
        #[allow(unused_mut, unused_variables, clippy::let_unit_value)]
        let (chosen, ($($arm,)*)) = {
            $(let mut $arm = $made;)*
            let chosen = $crate::sync::channel::$how(&mut [$(&mut $arm),*] $(, $time)?);
            (::std::option::Option::<usize>::from(chosen), ($($arm.result(),)*))
        };
        $(if chosen == ::std::option::Option::Some($index) {
            match $arm.expect("the chosen arm has an outcome") {
                $result => $code,
            }
        } else)* {
            $crate::select!(@otherwise $($default)?)
        }
    }};
    (@otherwise) => { ::std::unreachable!("a select without default chooses an arm") };
    (@otherwise $default:expr) => {
        match () {
            () => $default, // braces that the caller has written are not found superfluous here
        }
    };
    ($($arms:tt)*) => { $crate::select!(@arms [] (0usize) $($arms)*) };
}
