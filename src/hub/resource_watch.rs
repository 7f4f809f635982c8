//! Lists and watches the objects of a kind.

use futures::stream::BoxStream;
use http::StatusCode;
use kube::api::{Request, WatchParams};
use serde_json::Value;

use crate::fleet_error::FleetError;
use crate::fleet_resource::{Resource, without_bookkeeping};
use crate::follow::{self, Change, Followed, Listing};
use crate::limits;
use crate::resource_list::{ListPart, ResourceList};
use gitwork_kube::watch_stream::{WatchEnd, WatchStream};
use gitwork_retry::RetryClass;

/// What happens to the objects of a kind. `T` is what the caller makes of an object.
pub(crate) enum ResourceEvent<T> {
    /// A complete list follows.
    ListStarted,
    Listed(T),
    ListCompleted,
    /// An object was created or changed.
    Changed(T),
    /// An object was deleted; this is its last version.
    Gone(T),
}

impl Resource {
    /// Lists and watches the objects, without end. After an error the list starts again, with
    /// exponential backoff.
    pub(crate) fn watch<T: Send + 'static>(
        self,
        labels: Option<&str>,
        read: impl Fn(Value) -> T + Send + Sync + 'static,
    ) -> BoxStream<'static, Result<ResourceEvent<T>, FleetError>> {
        let labels = labels.map(str::to_owned);
        follow::follow(ResourceWatch { resource: self, labels, list: None, read })
    }
}

/// A watch of a kind.
struct ResourceWatch<R> {
    resource: Resource,
    labels: Option<String>,
    /// The list under way.
    list: Option<ResourceList>,
    read: R,
}

impl<T, R> Followed for ResourceWatch<R>
where
    T: Send + 'static,
    R: Fn(Value) -> T + Send + Sync + 'static,
{
    type Event = ResourceEvent<T>;
    type Error = FleetError;

    async fn list(&mut self) -> Result<Listing<ResourceEvent<T>>, FleetError> {
        // Until the API server answers, the objects that are known stay.
        let started = self.list.is_none().then_some(ResourceEvent::ListStarted);
        let list = self.list.get_or_insert_with(|| ResourceList::new(self.labels.as_deref()));
        let read = |object| ResourceEvent::Listed((self.read)(object));
        let part = list.next(&self.resource, read).await;
        let part = part.inspect_err(|_| self.list = None)?;
        Ok(match part {
            ListPart::Objects(objects) => Listing::part(started.into_iter().chain(objects)),
            ListPart::Again => Listing::part([ResourceEvent::ListStarted]),
            ListPart::End(resource_version) => {
                self.list = None;
                Listing::last([ResourceEvent::ListCompleted], resource_version)
            }
        })
    }

    async fn open(&mut self, resource_version: &str) -> Result<Option<WatchStream>, FleetError> {
        let resource = &self.resource;
        let timeout = u32::try_from(limits::HUB_WATCH.as_secs()).ok();
        let label_selector = self.labels.clone();
        let params = WatchParams { label_selector, timeout, ..WatchParams::default() };
        let request = Request::new(resource.api.resource_url()).watch(&params, resource_version);
        let request = request.map_err(|error| resource.other("watch", &error))?;
        let api = resource.connection.api();
        match api.open_watch(request, limits::HUB_WATCH_OPEN).await {
            Ok(Ok(events)) => Ok(Some(events)),
            Ok(Err(response)) if response.status == StatusCode::GONE => Ok(None),
            Ok(Err(response)) => Err(resource.rejected("watch", &response.api_status())),
            Err(error) => Err(resource.other("watch", &error)),
        }
    }

    fn read(&mut self, change: Change) -> Option<ResourceEvent<T>> {
        let read = |object| (self.read)(without_bookkeeping(object));
        Some(match change {
            Change::Present(object) => ResourceEvent::Changed(read(object)),
            Change::Gone(object) => ResourceEvent::Gone(read(object)),
        })
    }

    fn error(&self, end: WatchEnd) -> FleetError {
        match end {
            WatchEnd::Failed(status) => self.resource.rejected("watch", &status),
            end => self.resource.other("watch", &follow::problem(&end)),
        }
    }

    /// A missing kind or permission may be there soon: one small request a minute asks for it.
    fn retry_class(_: &FleetError) -> RetryClass {
        RetryClass::Unavailable { retry_after_seconds: None }
    }
}
