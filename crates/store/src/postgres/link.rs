//! One connection, used as a blocking one, and the little runtime that drives all of them.
//!
//! A link is either well or done with: after a lost connection or an answer that never came, whoever has it opens
//! another. What was written by then is not known, and the caller must be able to live with that.

mod target;
mod value;

use std::collections::HashMap;
use std::error::Error as _;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Connection, Error, RowStream, Socket, Statement};

pub(super) use tokio_postgres::Row;

pub use target::Target;
pub(super) use value::Value;

use crate::StoreError;

/// A statement and its values.
pub(super) type Step = (&'static str, Vec<Value>);

type Wire = Connection<
    Socket,
    <tokio_postgres_rustls::MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<Socket>>::Stream,
>;

/// What a link is for, and so what its session may do and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Group commits.
    Writer,
    /// Reads for people and doors, of one tenant at a time.
    Reader,
    /// Sealing.
    Upkeep,
    /// Cleaning: as the login role, since only the owner of a table may.
    Chores,
    /// Whoever makes and changes the schema; as the login role.
    Owner,
}

impl Kind {
    fn role(self) -> Option<&'static str> {
        match self {
            Kind::Writer | Kind::Upkeep => Some("pombo_engine"),
            Kind::Reader => Some("pombo_reader"),
            Kind::Chores | Kind::Owner => None,
        }
    }

    /// Settings of the session. The server ends what a frozen process left open after ten seconds, so that nobody
    /// waits for its locks for longer. Plans must not change with what the statistics happen to say of a table
    /// that was empty a minute ago: whatever the writer does has its index.
    fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Kind::Writer => &[
                ("statement_timeout", "15000"),
                ("lock_timeout", "12000"),
                ("idle_in_transaction_session_timeout", "10000"),
                ("jit", "off"),
                ("enable_seqscan", "off"),
                ("enable_mergejoin", "off"),
                ("enable_hashjoin", "off"),
                ("plan_cache_mode", "force_generic_plan"),
                ("search_path", "pombo"),
            ],
            Kind::Reader => &[
                ("statement_timeout", "10000"),
                ("lock_timeout", "5000"),
                ("idle_in_transaction_session_timeout", "10000"),
                ("jit", "off"),
                ("search_path", "pombo"),
            ],
            Kind::Upkeep => &[
                ("statement_timeout", "60000"),
                ("lock_timeout", "10000"),
                ("idle_in_transaction_session_timeout", "10000"),
                ("jit", "off"),
                ("enable_seqscan", "off"),
                ("search_path", "pombo"),
            ],
            Kind::Chores => &[
                ("statement_timeout", "300000"),
                ("lock_timeout", "2000"),
                ("idle_in_transaction_session_timeout", "10000"),
                ("jit", "off"),
                ("search_path", "pombo"),
            ],
            Kind::Owner => &[
                ("statement_timeout", "0"),
                ("lock_timeout", "60000"),
                ("idle_in_transaction_session_timeout", "60000"),
                ("jit", "off"),
                ("search_path", "pombo"),
            ],
        }
    }

    /// How long to wait for an answer at all. The server's own limits come first unless it is frozen or gone.
    fn patience(self) -> Duration {
        match self {
            Kind::Writer | Kind::Reader => Duration::from_secs(20),
            Kind::Upkeep => Duration::from_secs(70),
            Kind::Chores => Duration::from_secs(310),
            Kind::Owner => Duration::from_secs(24 * 3600),
        }
    }

    fn begin(self) -> &'static str {
        match self {
            Kind::Reader => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            _ => "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
        }
    }

    /// Whether what callers are told comes by a session of this kind. A standby has only the past to tell: an address
    /// may lead to one for a moment, and a session stays where it is.
    fn decides(self) -> bool {
        matches!(self, Kind::Writer | Kind::Reader)
    }

    /// Whether a session of this kind writes only between `begin` and COMMIT (see `alone`).
    ///
    /// Statements are sent without waiting for those before them. If a BEGIN were cancelled, what follows would
    /// otherwise be done all the same, one by one.
    fn writes_in_transactions(self) -> bool {
        matches!(self, Kind::Writer | Kind::Reader)
    }
}

/// One thread that drives all connections of a store. It ends with the last of its clones.
#[derive(Clone)]
pub(super) struct Driver(Arc<Running>);

struct Running(Option<Runtime>, Handle);

impl Drop for Running {
    fn drop(&mut self) {
        // Not by dropping it, which would wait, and may not in an asynchronous context.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Driver")
    }
}

impl Driver {
    pub(super) fn start() -> Result<Driver, StoreError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("pombo-postgres")
            .enable_all()
            .build()
            .map_err(|error| StoreError::Unavailable(format!("cannot start a thread: {error}")))?;
        let handle = runtime.handle().clone();
        Ok(Driver(Arc::new(Running(Some(runtime), handle))))
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.0.1
    }
}

/// One connection. Its calls block, so they are made by plain threads, never inside an asynchronous task.
pub(super) struct Link {
    driver: Driver,
    client: Arc<Client>,
    kind: Kind,
    /// How long an answer may take.
    patience: Duration,
    pooled: bool,
    /// The role to take, if the database has it.
    role: Option<&'static str>,
    /// By address and length of the text, which is static.
    prepared: Mutex<HashMap<(usize, usize), Statement>>,
    /// Between BEGIN and COMMIT, as far as was sent.
    in_transaction: AtomicBool,
    /// An answer did not come in time.
    lost: AtomicBool,
    /// Sent, and not yet waited for.
    ahead: Mutex<Vec<Started>>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("kind", &self.kind)
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

/// Connects to the first host that will do, and says who answered.
pub(super) async fn connect(target: &Target, kind: Kind) -> Result<(Client, Wire), StoreError> {
    let mut failures = Vec::new();
    for (nth, host) in target.hosts() {
        let mut host = host.clone();
        let limit = host.get_connect_timeout().copied().unwrap_or(target::CONNECT);
        if !target.pooled() {
            host.options(options(kind, host.get_options()));
        }
        let failure = match timeout(limit, host.connect(target.tls.clone())).await {
            Ok(Ok(connected)) => {
                target.answered(nth);
                return Ok(connected);
            }
            Ok(Err(error)) => words(&error),
            Err(_) => "no answer in time".to_owned(),
        };
        failures.push(format!("{}: {failure}", target::address(&host)));
    }
    Err(StoreError::Unavailable(format!("cannot connect to PostgreSQL at {}", failures.join("; "))))
}

/// Settings as options of the session's start. What the URL asks for comes after ours, and only where our names
/// are found is not for it to say.
fn options(kind: Kind, asked: Option<&str>) -> String {
    let ours = kind.settings().iter().map(|(name, value)| format!("-c {name}={value}"));
    let all: Vec<_> =
        ours.chain(asked.map(str::to_owned)).chain(["-c search_path=pombo".to_owned()]).collect();
    all.join(" ")
}

/// Settings for one transaction. A commit must reach the disk, whatever is usual elsewhere on the server.
fn settings(kind: Kind, role: Option<&'static str>) -> Step {
    const SET: &str = "SELECT set_config(name, value, true) FROM unnest($1, $2) AS setting (name, value)
        UNION ALL SELECT set_config('synchronous_commit', 'on', true)
        WHERE current_setting('synchronous_commit') = 'off'";
    let (mut names, mut values): (Vec<_>, Vec<_>) = kind.settings().iter().copied().unzip();
    names.extend(role.map(|_| "role"));
    values.extend(role);
    (SET, vec![names.into(), values.into()])
}

const STANDBY: &str = "this server is a standby, which takes no writes and may be behind";
const POOLER: &str = "a pooler that does not keep the settings of a session stands between";

/// Refuses a session that has not got its settings. It is shared, and ours would trouble others as theirs us.
async fn refuse_unnamed_pooler(client: &Client) -> Result<(), StoreError> {
    const OURS: &str = "SELECT WHERE current_setting('search_path') = 'pombo'";
    // Without a name, since a pooler may have the next step done elsewhere.
    match client.query_typed(OURS, &[]).await {
        Ok(rows) if rows.is_empty() => Err(StoreError::Unavailable(POOLER.to_owned())),
        Ok(_) => Ok(()),
        Err(error) => Err(failure(&error)),
    }
}

impl Link {
    /// Connects, and takes the role of the kind if the database has it.
    pub(super) fn open(driver: &Driver, target: &Target, kind: Kind) -> Result<Link, StoreError> {
        let client = driver.handle().block_on(async {
            let (client, wire) = connect(target, kind).await?;
            tokio::spawn(wire);
            if !target.pooled() {
                let refusal = timeout(target::CONNECT, refuse_unnamed_pooler(&client)).await;
                refusal.map_err(|_| unanswered())??;
            }
            Ok::<_, StoreError>(client)
        })?;
        let mut link = Link {
            driver: driver.clone(),
            client: Arc::new(client),
            kind,
            patience: kind.patience(),
            pooled: target.pooled(),
            role: None,
            prepared: Mutex::default(),
            in_transaction: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            ahead: Mutex::default(),
        };
        const FACTS: &str = "SELECT pg_catalog.pg_is_in_recovery(),
            EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = $1)";
        if let Some(role) = kind.role() {
            let facts = link.query(FACTS, vec![role.into()])?;
            let is = |nth: usize| facts.first().is_some_and(|row| row.get(nth));
            if kind.decides() && is(0) {
                return Err(StoreError::Unavailable(STANDBY.to_owned()));
            }
            link.role = is(1).then_some(role);
        }
        if !link.pooled {
            // What could not be an option of the start: it depends on what is there, or on being connected. A
            // commit must reach the disk, whatever is usual elsewhere on the server.
            const SET: &str = "SELECT set_config('role', coalesce($1, 'none'), false),
                set_config('default_transaction_read_only', CASE WHEN $2 THEN 'on' ELSE 'off' END, false),
                set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), false)";
            link.query(SET, vec![link.role.into(), kind.writes_in_transactions().into()])?;
        }
        Ok(link)
    }

    /// What opens a transaction, to be sent before its other statements. Behind a pooler it brings the session's
    /// settings with it, which belong to nobody between transactions.
    ///
    /// A reader's transaction sees one moment; the others see what is committed when each statement starts.
    pub(super) fn begin(&self) -> Vec<Step> {
        let mut steps = vec![(self.kind.begin(), Vec::new())];
        if self.pooled {
            steps.push(settings(self.kind, self.role));
        }
        steps
    }

    pub(super) fn query(&self, sql: &'static str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        Ok(self.pipeline(vec![(sql, values)])?.pop().unwrap_or_default())
    }

    /// One statement in a transaction of its own, unless one is open.
    pub(super) fn alone(&self, sql: &'static str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        if self.in_transaction.load(Ordering::Relaxed) {
            return self.query(sql, values);
        }
        let mut steps = self.begin();
        steps.extend([(sql, values), ("COMMIT", Vec::new())]);
        let mut rows = self.pipeline(steps)?;
        rows.pop();
        Ok(rows.pop().unwrap_or_default())
    }

    /// Sends all statements at once, to be done in order; the first error is the answer.
    ///
    /// Each is a statement of its own: those after an error are refused only inside of a transaction. Behind a
    /// pooler they become one transaction if none is open.
    pub(super) fn pipeline(&self, steps: Vec<Step>) -> Result<Vec<Vec<Row>>, StoreError> {
        let opens = |step: Option<&Step>| step.is_some_and(|(sql, _)| sql.starts_with("BEGIN"));
        let wrap = self.pooled && !self.in_transaction.load(Ordering::Relaxed) && !opens(steps.first());
        if !wrap {
            return self.send(steps);
        }
        let mut wrapped = self.begin();
        let before = wrapped.len();
        wrapped.extend(steps);
        wrapped.push(("COMMIT", Vec::new()));
        let mut rows = self.send(wrapped)?;
        rows.pop();
        Ok(rows.split_off(before))
    }

    /// One statement, and behind it others whose end nobody waits for yet: the server works on them while the caller
    /// works on the answer, whose rows it is given as they come. What became of the others is known with the next
    /// call.
    pub(super) fn query_ahead(
        &self,
        step: Step,
        ahead: Vec<Step>,
        mut each: impl FnMut(&Row) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut read = Ok(());
        self.wait(async {
            let mut before = self.take_ahead();
            if !self.knows(std::slice::from_ref(&step)) || !self.knows(&ahead) {
                ended(std::mem::take(&mut before)).await?;
                self.statements(std::slice::from_ref(&step)).await?;
                self.statements(&ahead).await?;
            }
            let mut rows = std::pin::pin!(self.rows(step));
            let begun = begun(rows.as_mut()).await;
            let after = if ahead.is_empty() { Ok(None) } else { self.start(ahead).await.map(Some) };
            // The first error counts: those after it say only that there was one.
            ended(before).await?;
            let rows = match begun {
                Some(rows) => rows,
                None => rows.await,
            };
            let mut rows = std::pin::pin!(rows?);
            while let Some(row) = rows.try_next().await? {
                if read.is_ok() {
                    read = each(&row);
                }
            }
            self.put_ahead(after?);
            Ok(())
        })?;
        read
    }

    /// Sends statements whose end nobody waits for yet, so that the server works while the caller prepares more. What
    /// became of them is known with the next call that waits.
    pub(super) fn go_ahead(&self, steps: Vec<Step>) -> Result<(), StoreError> {
        self.note_transaction(&steps);
        self.wait(async {
            let mut before = self.take_ahead();
            if !self.knows(&steps) {
                ended(std::mem::take(&mut before)).await?;
            }
            let now = self.start(steps).await?;
            self.put_ahead(before.into_iter().chain([now]));
            Ok(())
        })
    }

    fn send(&self, steps: Vec<Step>) -> Result<Vec<Vec<Row>>, StoreError> {
        self.note_transaction(&steps);
        self.wait(async {
            let mut before = self.take_ahead();
            if !self.knows(&steps) {
                arrive(&mut before).await;
            }
            let now = self.start(steps).await;
            // The first error counts: those after it say only that there was one.
            ended(before).await?;
            now?.end().await
        })
    }

    fn note_transaction(&self, steps: &[Step]) {
        for (sql, _) in steps {
            match sql.split_ascii_whitespace().next() {
                Some("BEGIN") => self.in_transaction.store(true, Ordering::Relaxed),
                Some("COMMIT" | "ROLLBACK") => self.in_transaction.store(false, Ordering::Relaxed),
                _ => {}
            }
        }
    }

    fn take_ahead(&self) -> Vec<Started> {
        std::mem::take(&mut *self.ahead.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put_ahead(&self, started: impl IntoIterator<Item = Started>) {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner).extend(started);
    }

    /// Sends one statement, and gives its rows as they come.
    async fn rows(&self, step: Step) -> Result<RowStream, Error> {
        if self.pooled {
            return self.client.query_typed_raw(step.0, typed(&step.1)).await;
        }
        let statements = self.statements(std::slice::from_ref(&step)).await?;
        self.client.query_raw(&statements[0], plain(&step.1)).await
    }

    /// Sends statements, all at once.
    async fn start(&self, steps: Vec<Step>) -> Result<Started, Error> {
        let client = self.client.clone();
        if self.pooled {
            return Ok(Started::of(async move {
                let typed: Vec<_> = steps.iter().map(|(_, values)| typed(values)).collect();
                in_order(steps.iter().zip(&typed).map(|((sql, _), typed)| client.query_typed(sql, typed)))
                    .await
            })
            .await);
        }
        let statements = self.statements(&steps).await?;
        Ok(Started::of(async move {
            let plain: Vec<_> = steps.iter().map(|(_, values)| plain(values)).collect();
            in_order(statements.iter().zip(&plain).map(|(statement, plain)| client.query(statement, plain)))
                .await
        })
        .await)
    }

    /// Statements of some text, in one go; none of them returns rows.
    pub(super) fn script(&self, sql: &str) -> Result<(), StoreError> {
        self.wait(self.client.batch_execute(sql))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lost.load(Ordering::Relaxed) || self.client.is_closed()
    }

    /// Whether these can be sent without asking the server first. Where not, the answers to what was sent before
    /// must have arrived: the connection reads no further than somebody takes what it has read.
    fn knows(&self, steps: &[Step]) -> bool {
        let known = self.known();
        self.pooled || steps.iter().all(|(sql, _)| known.contains_key(&place(sql)))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<(usize, usize), Statement>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn statements(&self, steps: &[Step]) -> Result<Vec<Statement>, Error> {
        let mut statements = Vec::with_capacity(steps.len());
        for (sql, values) in steps {
            let prepared = self.known().get(&place(sql)).cloned();
            statements.push(match prepared {
                Some(statement) => statement,
                None => {
                    let types: Vec<_> = values.iter().map(|value| value.of.clone()).collect();
                    let statement = self.client.prepare_typed(sql, &types).await?;
                    self.known().insert(place(sql), statement.clone());
                    statement
                }
            });
        }
        Ok(statements)
    }

    fn wait<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, StoreError> {
        if self.is_closed() {
            return Err(StoreError::Unavailable("the connection to PostgreSQL is closed".to_owned()));
        }
        match self.driver.handle().block_on(async { timeout(self.patience, work).await }) {
            Ok(done) => done.map_err(|error| match error.code() {
                // By its `statement_timeout`. Others than readers cannot go on without the answer.
                Some(&SqlState::QUERY_CANCELED) if self.kind == Kind::Reader => StoreError::TooLong,
                _ => failure(&error),
            }),
            Err(_) => {
                self.lost.store(true, Ordering::Relaxed);
                Err(unanswered())
            }
        }
    }
}

fn unanswered() -> StoreError {
    StoreError::Unavailable("PostgreSQL did not answer in time".to_owned())
}

fn place(sql: &'static str) -> (usize, usize) {
    (sql.as_ptr().addr(), sql.len())
}

fn plain(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| &*value.is as &(dyn ToSql + Sync)).collect()
}

fn typed(values: &[Value]) -> Vec<(&(dyn ToSql + Sync), Type)> {
    values.iter().map(|value| (&*value.is as &(dyn ToSql + Sync), value.of.clone())).collect()
}

type Answers = Result<Vec<Vec<Row>>, Error>;

/// Statements on their way.
struct Started {
    work: Pin<Box<dyn Future<Output = Answers> + Send>>,
    done: Option<Answers>,
}

impl Started {
    /// Begins the work, which sends its statements.
    async fn of(work: impl Future<Output = Answers> + Send + 'static) -> Started {
        let mut work: Pin<Box<dyn Future<Output = Answers> + Send>> = Box::pin(work);
        let done = begun(work.as_mut()).await;
        Started { work, done }
    }

    async fn end(self) -> Answers {
        match self.done {
            Some(done) => done,
            None => self.work.await,
        }
    }
}

/// Waits for all answers to these, and keeps them for whoever asks.
async fn arrive(started: &mut [Started]) {
    for started in started {
        if started.done.is_none() {
            started.done = Some(started.work.as_mut().await);
        }
    }
}

/// Waits for the end of all of these; the first error counts.
async fn ended(started: Vec<Started>) -> Result<(), Error> {
    for one in started {
        one.end().await?;
    }
    Ok(())
}

/// Lets the work go as far as it can without waiting; its end, if it came to that.
async fn begun<F: Future + ?Sized>(mut work: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Starts each in turn, which sends it, and then waits for all of them. The first error, in that order, wins.
async fn in_order<F>(work: impl Iterator<Item = F>) -> Answers
where
    F: Future<Output = Result<Vec<Row>, Error>>,
{
    let mut waiting = Vec::new();
    for one in work {
        let mut one = Box::pin(one);
        waiting.push((begun(one.as_mut()).await, one));
    }
    let mut all = Vec::with_capacity(waiting.len());
    for (done, one) in waiting {
        all.push(match done {
            Some(result) => result,
            None => one.await,
        });
    }
    all.into_iter().collect()
}

/// What an error means for whoever wrote, by its class.
pub(super) fn failure(error: &Error) -> StoreError {
    match error.code() {
        Some(&SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED) => {
            StoreError::Again(words(error))
        }
        Some(&SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED) => StoreError::Broken(words(error)),
        _ => StoreError::Unavailable(words(error)),
    }
}

/// The server's words, or the connection's, without any value: those of class 22 repeat what was written.
fn words(error: &Error) -> String {
    let Some(said) = error.as_db_error() else {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        let hint = if cause.contains("certificate") {
            " (name its authority with sslrootcert=FILE, or use sslmode=disable where the network is trusted)"
        } else {
            ""
        };
        return format!("{error}{cause}{hint}");
    };
    let code = said.code().code();
    if code.starts_with("22") {
        format!("wrong data ({code})")
    } else if said.message().contains("unsupported startup parameter") {
        format!("{POOLER}: {} ({code})", said.message())
    } else {
        format!("{} ({code})", said.message())
    }
}

#[cfg(test)]
mod tests;
