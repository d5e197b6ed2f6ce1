//! What is done to single jobs: retry, cancel, promote, remove.

use mq_core::validate::{self, MAX_BATCH};
use mq_core::{Cancelled, DedupeKey, JobId, JobName, Result, StoreError};
use redis::Value;

use super::word;
use crate::RedisStore;
use crate::codec::state;
use crate::reply::unexpected;
use crate::script::{self, Script};

/// Something that is done to a job, and the states that allow it.
struct Verb {
    name: &'static str,
    required: &'static str,
}

const RETRY: Verb = Verb {
    name: "retry",
    required: "failed",
};
const CANCEL: Verb = Verb {
    name: "cancel",
    required: "waiting, delayed, active or waiting-children",
};
const PROMOTE: Verb = Verb {
    name: "promote",
    required: "delayed",
};
const REMOVE: Verb = Verb {
    name: "remove",
    required: "waiting, delayed or terminal (cancel it first)",
};

impl Verb {
    /// Why it was not done, as the script's word says.
    fn refused(&self, id: &JobId, word: &str) -> StoreError {
        let id = id.clone();
        match word {
            "unknown" => StoreError::NotFound { id },
            "corrupt" => StoreError::Corrupt {
                id,
                detail: format!(
                    "what it is cannot be told, so it cannot {} it; remove it",
                    self.name
                ),
            },
            letter => match letter.bytes().next().map(state) {
                Some(Ok(state)) => StoreError::IllegalState {
                    operation: self.name,
                    id,
                    state,
                    required: self.required,
                },
                _ => unexpected(
                    self.name,
                    "a word it knows",
                    &Value::SimpleString(word.to_owned()),
                ),
            },
        }
    }
}

impl RedisStore {
    pub(super) async fn retry_job(&self, id: &JobId) -> Result<()> {
        self.change_one(&RETRY, &script::RETRY, id).await
    }

    pub(super) async fn promote_job(&self, id: &JobId) -> Result<()> {
        self.change_one(&PROMOTE, &script::PROMOTE, id).await
    }

    pub(super) async fn remove_job(&self, id: &JobId) -> Result<bool> {
        match self.change_one(&REMOVE, &script::REMOVE, id).await {
            Ok(()) => Ok(true),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn change_one(&self, verb: &Verb, script: &'static Script, id: &JobId) -> Result<()> {
        validate::job_id(id)?;
        let mut call = self.call(script);
        call.arg(&**id);
        match word(verb.name, &self.run(&call).await?)?.as_str() {
            "ok" => Ok(()),
            other => Err(verb.refused(id, other)),
        }
    }

    pub(super) async fn cancel_jobs(&self, ids: &[JobId]) -> Result<Vec<Result<Cancelled>>> {
        validate::job_ids(ids)?;
        let mut answers = Vec::with_capacity(ids.len());
        for page in ids.chunks(MAX_BATCH as usize) {
            let mut call = self.call(&script::CANCEL);
            for id in page {
                call.arg(&**id);
            }
            let mut cancelled = self.run_list(&call).await?;
            for id in page {
                answers.push(match cancelled.next()? {
                    Value::Int(1) => Ok(Cancelled::Ended),
                    Value::Int(2) => Ok(Cancelled::Requested),
                    answer => Err(CANCEL.refused(id, &word(CANCEL.name, &answer)?)),
                });
            }
        }
        Ok(answers)
    }

    pub(super) async fn cancel_keyed(&self, name: &JobName, key: &DedupeKey) -> Result<bool> {
        validate::cancel_by_dedupe(name, key)?;
        let mut call = self.call(&script::CANCEL_KEYED);
        call.arg(&**name).arg(&**key);
        Ok(self.run(&call).await? == Value::Int(1))
    }
}
