//! What a flow is.

use mq_core::{HandlerError, Job};
use mq_worker::JobContext;

use crate::children::Children;
use crate::members::Members;
use crate::results::ChildResults;

/// A job that fans out into children and collects what they came to.
///
/// The producer's side is the parent job's own: whoever enqueues, schedules,
/// cancels or awaits it need not know that there is a flow. Both phases draw
/// on the parent's attempts; a fan-out uses none.
///
/// ```
/// use mq_core::{HandlerError, Failure, Job};
/// use mq_flow::{ChildResults, Children, Flow};
/// use mq_worker::JobContext;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(name = "send-digest", output = usize)]
/// struct SendDigest { readers: Vec<String> }
///
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(name = "send-email")]
/// struct SendEmail { to: String }
///
/// struct DailyDigest;
///
/// impl Flow for DailyDigest {
///     const NAME: &'static str = "daily-digest";
///     type Parent = SendDigest;
///     type Children = (SendEmail,);
///
///     async fn fan_out(
///         &self,
///         digest: &SendDigest,
///         _: &JobContext,
///     ) -> Result<Children<Self>, HandlerError<Failure>> {
///         let readers = digest.readers.iter();
///         Ok(readers.fold(Children::new(), |children, to| {
///             children.add(to.as_str(), SendEmail { to: to.clone() })
///         }))
///     }
///
///     async fn collect(
///         &self,
///         _: &SendDigest,
///         results: ChildResults<Self>,
///         _: &JobContext,
///     ) -> Result<usize, HandlerError<Failure>> {
///         Ok(results.completed::<SendEmail>().await?.len())
///     }
/// }
/// ```
pub trait Flow: Sized + Send + Sync + 'static {
    /// What the flow is called in its children's records; at most 256 bytes.
    const NAME: &'static str;

    /// The job that fans out.
    type Parent: Job;

    /// The jobs it may fan out into: a tuple of up to eight types, each once.
    type Children: Members;

    /// What a failed child means for the parent.
    const ON_CHILD_FAILURE: OnChildFailure = OnChildFailure::Continue;

    /// Names the children. It runs at least once: until its end is stored, a
    /// crash or an error makes it run again, and what an earlier run named is
    /// forgotten. None at all is fine: `collect` follows at once.
    ///
    /// # Errors
    /// As a handler's: the run failed, and may be tried again.
    fn fan_out(
        &self,
        job: &Self::Parent,
        context: &JobContext,
    ) -> impl Future<Output = Result<Children<Self>, HandlerError<<Self::Parent as Job>::Error>>> + Send;

    /// Makes the parent's output of what the children came to; all of them
    /// have ended. It runs at least once.
    ///
    /// # Errors
    /// As a handler's: the run failed, and this phase may be tried again. The
    /// children are not.
    fn collect(
        &self,
        job: &Self::Parent,
        results: ChildResults<Self>,
        context: &JobContext,
    ) -> impl Future<
        Output = Result<<Self::Parent as Job>::Output, HandlerError<<Self::Parent as Job>::Error>>,
    > + Send;
}

/// What a failed child means for its parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnChildFailure {
    /// The others go on, and `collect` sees the failure among its results.
    #[default]
    Continue,
    /// The parent fails at once, and its other children are called off.
    FailFast,
}
