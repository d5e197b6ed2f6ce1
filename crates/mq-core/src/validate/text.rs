//! The texts that name things.

use super::{MAX_ID, MAX_NAME, RESERVED_NAMES, Validated};
use crate::error::{InvalidInput, Rule};
use crate::id::{ChildKey, JobId, JobName, LockToken, QueueName};

/// A job id.
pub fn job_id(id: &JobId) -> Validated {
    text("job id", id, MAX_ID)
}

/// A job id that a caller chose: none of those that schedules and flows build.
pub fn chosen_job_id(id: &JobId) -> Validated {
    job_id(id)?;
    match RESERVED_NAMES.iter().find(|reserved| {
        id.strip_prefix(**reserved)
            .is_some_and(|rest| rest.starts_with('/'))
    }) {
        None => Ok(()),
        Some(reserved) => Err(InvalidInput::new(
            "job id",
            &**id,
            Rule::Other(format!(
                "begins with {reserved}/, which is kept for ids that the library builds: choose another"
            )),
        )),
    }
}

/// A job name.
pub fn job_name(name: &JobName) -> Validated {
    self::name("job name", name)?;
    if name.contains('/') {
        return Err(InvalidInput::new(
            "job name",
            &**name,
            Rule::Other(
                "holds a slash, which separates the parts of job ids: use another sign".into(),
            ),
        ));
    }
    if RESERVED_NAMES.contains(&name.as_str()) {
        return Err(InvalidInput::new(
            "job name",
            &**name,
            Rule::Other("is kept for ids that the library builds: choose another".into()),
        ));
    }
    Ok(())
}

/// A queue name.
pub fn queue_name(queue: &QueueName) -> Validated {
    name("queue name", queue)
}

/// A child's key.
pub fn child_key(key: &ChildKey) -> Validated {
    name("child key", key)
}

/// A lock token.
pub fn lock_token(token: &LockToken) -> Validated {
    name("lock token", token)
}

pub(super) fn name(field: &str, value: &str) -> Validated {
    text(field, value, MAX_NAME)
}

pub(super) fn text(field: &str, value: &str, most: usize) -> Validated {
    if value.is_empty() {
        return Err(InvalidInput::new(field, value, Rule::Empty));
    }
    if value.len() > most {
        let rule = Rule::TooLong {
            bytes: value.len(),
            most,
        };
        return Err(InvalidInput::new(field, value, rule));
    }
    no_nul(field, value)
}

pub(super) fn no_nul(field: &str, value: &str) -> Validated {
    if value.contains('\0') {
        return Err(InvalidInput::new(field, value, Rule::Nul));
    }
    Ok(())
}
