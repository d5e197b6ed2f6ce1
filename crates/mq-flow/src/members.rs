//! Which jobs belong to a flow, and which stores a worker of it needs: decided
//! by the compiler.

use std::sync::Arc;

use mq_core::{Job, Store, StoreHandle, StoreKey, StoreName};

/// The place of a type in a tuple. The compiler finds it.
#[derive(Clone, Copy, Debug)]
pub struct At<const PLACE: usize>;

/// A tuple of one to eight kinds of job, each different from the others.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no tuple of one to eight job types",
    note = "a single member is a tuple, too: `(SendEmail,)`"
)]
pub trait Members: Send + Sync + 'static {}

/// Says that jobs of the kind `J` are among these members, at the place `I`.
#[diagnostic::on_unimplemented(
    message = "`{J}` is no child of this flow: its children are `{Self}`",
    label = "this is no child of the flow",
    note = "add it to `type Children` of the flow"
)]
pub trait HasMember<J, I> {}

/// Says that among these handles is one of the store `S`, at the place `I`.
#[diagnostic::on_unimplemented(
    message = "no handle of the store `{S}` is given to the flow",
    label = "a child of the flow lives on `{S}`",
    note = "give the flow one handle of each store that its children live on: a tuple, or the only one"
)]
pub trait HasStore<S: StoreName, I> {
    /// The handle.
    fn handle(&self) -> &StoreHandle<S>;
}

/// Says that these handles are enough for the members `M`, whose stores are at
/// the places `I`.
#[diagnostic::on_unimplemented(
    message = "the stores given to the flow are not all those of its children `{M}`",
    note = "give the flow one handle of each store that its children live on: a tuple, or the only one"
)]
pub trait StoresFor<M: Members, I> {
    /// The store of each member, by name.
    fn stores(&self) -> Vec<(StoreKey, Arc<dyn Store>)>;
}

impl<S: StoreName> HasStore<S, At<0>> for StoreHandle<S> {
    fn handle(&self) -> &StoreHandle<S> {
        self
    }
}

fn named<S: StoreName>(handle: &StoreHandle<S>) -> (StoreKey, Arc<dyn Store>) {
    (StoreKey::from(S::NAME), Arc::clone(handle.store()))
}

macro_rules! tuple {
    ($all:tt $places:tt $($member:ident $index:tt)+) => {
        tuple!(@members $all $places);
        $(tuple!(@place $all $member $index);)+
    };
    (@members ($($member:ident)+) ($($place:ident)+)) => {
        impl<$($member: Job),+> Members for ($($member,)+) {}

        impl<Given, $($member: Job, $place),+> StoresFor<($($member,)+), ($($place,)+)> for Given
        where
            $(Given: HasStore<$member::Store, $place>,)+
        {
            fn stores(&self) -> Vec<(StoreKey, Arc<dyn Store>)> {
                vec![$(named(HasStore::<$member::Store, $place>::handle(self))),+]
            }
        }
    };
    (@place ($($all:ident)+) $member:ident $index:tt) => {
        impl<$($all: Job),+> HasMember<$member, At<$index>> for ($($all,)+) {}

        impl<$($all: StoreName),+> HasStore<$member, At<$index>> for ($(StoreHandle<$all>,)+) {
            fn handle(&self) -> &StoreHandle<$member> {
                &self.$index
            }
        }
    };
}

tuple!((A) (PA) A 0);
tuple!((A B) (PA PB) A 0 B 1);
tuple!((A B C) (PA PB PC) A 0 B 1 C 2);
tuple!((A B C D) (PA PB PC PD) A 0 B 1 C 2 D 3);
tuple!((A B C D E) (PA PB PC PD PE) A 0 B 1 C 2 D 3 E 4);
tuple!((A B C D E F) (PA PB PC PD PE PF) A 0 B 1 C 2 D 3 E 4 F 5);
tuple!((A B C D E F G) (PA PB PC PD PE PF PG) A 0 B 1 C 2 D 3 E 4 F 5 G 6);
tuple!((A B C D E F G H) (PA PB PC PD PE PF PG PH) A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7);
