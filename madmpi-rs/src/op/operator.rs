//! An operator.

use std::sync::Arc;

use super::predefined::Predefined;
use super::user::User;

/// An operator.
pub(crate) enum Op {
    Predefined(Predefined),
    User(Arc<User>),
}

impl Op {
    pub(crate) fn is_commutative(&self) -> bool {
        match self {
            Op::Predefined(predefined) => predefined.is_commutative(),
            Op::User(user) => user.commutative,
        }
    }
}
