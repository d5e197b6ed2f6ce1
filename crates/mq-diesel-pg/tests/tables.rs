//! How the tables come to be, and how they live beside a program's own.

mod support;

use diesel::prelude::*;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_migrations::MigrationHarness;
use mq_core::{EnqueueOps, InspectOps, JobSpec, NewJob, RawJson, StoreError};
use mq_diesel_pg::schema::{mq_job_attempts, mq_jobs};
use mq_diesel_pg::{MIGRATIONS, PgStore};

use support::{fresh_name, fresh_schema, job, url};

/// A connection whose tables are those of a schema.
async fn connect(schema: &str) -> AsyncPgConnection {
    let mut connection = AsyncPgConnection::establish(&url())
        .await
        .expect("the server takes connections");
    let path = format!("SET search_path TO \"{schema}\"");
    connection
        .batch_execute(&path)
        .await
        .expect("the server takes connections");
    connection
}

fn refusal<T>(opened: mq_core::Result<T>) -> String {
    match opened {
        Ok(_) => panic!("expected a refusal"),
        Err(StoreError::Backend { message, .. }) => message,
        Err(error) => panic!("expected a permanent error, got {error:?}"),
    }
}

#[tokio::test]
async fn a_store_without_tables_names_the_call_that_makes_them() {
    let schema = fresh_name();
    let message = refusal(PgStore::builder(url()).schema(&schema).open().await);
    let call = format!("PgStore::builder(url).schema({schema:?}).migrate().await");
    assert!(message.contains(&call), "{message}");
}

#[tokio::test]
async fn tables_of_another_layout_are_refused() {
    let schema = fresh_name();
    let builder = PgStore::builder(url()).schema(&schema);
    builder.migrate().await.unwrap();
    let mut connection = connect(&schema).await;
    for (layout, remedy) in [(0, "migrate().await"), (99, "update this program")] {
        let set = format!("UPDATE mq_meta SET layout = {layout}");
        connection.batch_execute(&set).await.unwrap();
        let message = refusal(builder.clone().open().await);
        assert!(message.contains(&format!("layout {layout}")), "{message}");
        assert!(message.contains(remedy), "{message}");
    }
    let message = refusal(builder.migrate().await);
    assert!(message.contains("layout 99"), "{message}");
}

#[tokio::test]
async fn ten_that_migrate_at_once_make_the_tables_once() {
    let schema = fresh_name();
    let builder = PgStore::builder(url()).schema(&schema).pool_size(1);
    let all: Vec<_> = (0..10)
        .map(|_| {
            let builder = builder.clone();
            tokio::spawn(async move { builder.migrate().await })
        })
        .collect();
    for one in all {
        one.await.unwrap().unwrap();
    }
    builder.open().await.unwrap();
}

#[tokio::test]
async fn stores_in_two_schemas_share_nothing() {
    let (one, other) = (fresh_schema(), fresh_schema());
    one.migrate().await.unwrap();
    other.migrate().await.unwrap();
    let (one, other) = (one.open().await.unwrap(), other.open().await.unwrap());
    let id = one.enqueue(job()).await.unwrap().id;
    assert!(one.get_job(&id).await.unwrap().is_some());
    assert_eq!(other.get_job(&id).await.unwrap(), None);
    assert_eq!(other.counts(None).await.unwrap().total(), 0);
}

#[tokio::test]
async fn two_stores_on_one_pool_of_the_programs_keep_to_their_schemas() {
    let manager = diesel_async::pooled_connection::AsyncDieselConnectionManager::new(url());
    let pool = bb8::Pool::builder()
        .max_size(2)
        .build(manager)
        .await
        .unwrap();
    let mut stores = Vec::new();
    for _ in 0..2 {
        let builder = PgStore::with_pool(pool.clone()).schema(fresh_name());
        builder.migrate().await.unwrap();
        stores.push(builder.open().await.unwrap());
    }
    stores[0].enqueue(job()).await.unwrap();
    assert_eq!(stores[0].counts(None).await.unwrap().waiting, 1);
    assert_eq!(stores[1].counts(None).await.unwrap().waiting, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_migrations_go_with_a_programs_own() {
    let schema = fresh_name();
    let mut connection = AsyncPgConnection::establish(&url()).await.unwrap();
    connection
        .batch_execute(&format!(
            "CREATE SCHEMA \"{schema}\"; SET search_path TO \"{schema}\";
            CREATE TABLE __diesel_schema_migrations (
                version varchar(50) PRIMARY KEY, run_on timestamp NOT NULL DEFAULT now());
            INSERT INTO __diesel_schema_migrations (version) VALUES ('00000000000001'), ('1')"
        ))
        .await
        .unwrap();
    let mut harness = diesel_async::AsyncMigrationHarness::new(connection);
    let applied = harness.run_pending_migrations(MIGRATIONS).unwrap();
    assert_eq!(applied.len(), 1);
    assert!(!harness.has_pending_migration(MIGRATIONS).unwrap());
    let builder = PgStore::builder(url()).schema(&schema);
    builder.migrate().await.unwrap();
    let store = builder.clone().open().await.unwrap();
    store.enqueue(job()).await.unwrap();
    harness.revert_last_migration(MIGRATIONS).unwrap();
    assert!(builder.open().await.is_err(), "the tables are gone");
}

#[derive(QueryableByName)]
struct Plan {
    #[diesel(sql_type = diesel::sql_types::Text, column_name = "QUERY PLAN")]
    line: String,
}

#[tokio::test]
async fn a_program_may_add_a_generated_column_with_an_index_and_a_foreign_key() {
    let schema = fresh_name();
    let builder = PgStore::builder(url()).schema(&schema);
    builder.migrate().await.unwrap();
    let mut connection = connect(&schema).await;
    connection
        .batch_execute(
            "CREATE TABLE tenants (name text PRIMARY KEY);
            INSERT INTO tenants VALUES ('acme');
            ALTER TABLE mq_job
                ADD COLUMN tenant text GENERATED ALWAYS AS (metadata ->> 'tenant') STORED
                    REFERENCES tenants (name);
            CREATE INDEX ON mq_job (tenant);",
        )
        .await
        .unwrap();
    let store = builder.open().await.unwrap();
    let of = |tenant: &str| {
        let mut job = job();
        job.spec.metadata.insert("tenant".into(), tenant.into());
        job
    };
    store.enqueue(of("acme")).await.unwrap();
    assert!(
        store.enqueue(of("nobody")).await.is_err(),
        "the key refuses it"
    );
    let plan: Vec<Plan> = diesel::sql_query(
        "EXPLAIN SELECT * FROM mq_job WHERE tenant = 'acme' ORDER BY tenant LIMIT 1",
    )
    .load(&mut connection)
    .await
    .unwrap();
    let plan: String = plan.into_iter().map(|plan| plan.line).collect();
    assert!(plan.contains("mq_job_tenant_idx"), "{plan}");
}

diesel::table! {
    /// A program's own.
    orders (id) {
        /// Its number.
        id -> Integer,
        /// The job it waits for.
        job_id -> Text,
    }
}

mq_diesel_pg::allow_queries_with_jobs!(orders);

#[tokio::test]
async fn jobs_join_with_a_programs_own_table() {
    let schema = fresh_name();
    let builder = PgStore::builder(url()).schema(&schema);
    builder.migrate().await.unwrap();
    let store = builder.open().await.unwrap();
    let id = store.enqueue(job()).await.unwrap().id;
    let mut connection = connect(&schema).await;
    connection
        .batch_execute(&format!(
            "CREATE TABLE orders (id integer PRIMARY KEY, job_id text NOT NULL);
            INSERT INTO orders VALUES (7, '{id}'), (8, 'none')"
        ))
        .await
        .unwrap();
    let found: Vec<(i32, String, i64)> = orders::table
        .inner_join(mq_jobs::table.on(mq_jobs::id.eq(orders::job_id)))
        .filter(mq_jobs::state.eq("waiting"))
        .select((orders::id, mq_jobs::name, mq_jobs::attempts_max))
        .load(&mut connection)
        .await
        .unwrap();
    assert_eq!(found, [(7, "job".to_owned(), 1)]);
}

#[tokio::test]
async fn every_column_that_diesel_knows_can_be_read() {
    let schema = fresh_name();
    let builder = PgStore::builder(url()).schema(&schema);
    builder.migrate().await.unwrap();
    let mut connection = connect(&schema).await;
    use mq_diesel_pg::schema::{mq_job, mq_queue_control, mq_schedules, mq_workers};
    let counts = [
        mq_jobs::table
            .select(mq_jobs::all_columns)
            .execute(&mut connection)
            .await,
        mq_job::table
            .select(mq_job::all_columns)
            .execute(&mut connection)
            .await,
        mq_job_attempts::table
            .select(mq_job_attempts::all_columns)
            .execute(&mut connection)
            .await,
        mq_schedules::table
            .select(mq_schedules::all_columns)
            .execute(&mut connection)
            .await,
        mq_queue_control::table
            .select(mq_queue_control::all_columns)
            .execute(&mut connection)
            .await,
        mq_workers::table
            .select(mq_workers::all_columns)
            .execute(&mut connection)
            .await,
    ];
    for count in counts {
        assert_eq!(count, Ok(0));
    }
}

#[tokio::test]
async fn a_database_in_another_encoding_is_refused() {
    let name = fresh_name();
    let mut connection = AsyncPgConnection::establish(&url()).await.unwrap();
    connection
        .batch_execute(&format!(
            "CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
        ))
        .await
        .unwrap();
    let (server, _) = url()
        .rsplit_once('/')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let there = format!("{server}/{name}");
    let message = refusal(PgStore::builder(there).pool_size(1).open().await);
    assert!(
        message.contains("LATIN1") && message.contains("UTF8"),
        "{message}"
    );
}

#[tokio::test]
async fn payloads_of_a_job_come_back_through_the_view() {
    let schema = fresh_name();
    let builder = PgStore::builder(url()).schema(&schema);
    builder.migrate().await.unwrap();
    let store = builder.open().await.unwrap();
    let exact = RawJson::parse(r#"{"a":1.0,"b":"x"}"#).unwrap();
    store
        .enqueue(NewJob::new(JobSpec::new("job", "queue", exact)))
        .await
        .unwrap();
    let mut connection = connect(&schema).await;
    let payload: serde_json::Value = mq_jobs::table
        .select(mq_jobs::payload)
        .get_result(&mut connection)
        .await
        .unwrap();
    assert_eq!(payload, serde_json::json!({"a": 1.0, "b": "x"}));
}
