//! An orchestration that begins with a row of the application's, in one transaction: both exist, or neither.
//!
//! Without it, a process that dies between the commit of an order and the start of its orchestration leaves an order
//! that is never processed. Here two orders are placed and the second is rolled back.
//!
//! ```text
//! $ cargo run -p reveille-durable --example transactional_start
//! order 1 is shipped
//! order 2 is not there, and neither is its orchestration
//! ```

use std::sync::Arc;
use std::time::Duration;

use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use reveille_durable::{LongPollConfig, Options, PostgresProvider};
use reveille_pg::Sql;
use reveille_pg::testing::TestDb;
use sqlx::PgPool;
use tracing_subscriber::EnvFilter;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

async fn process(ctx: OrchestrationContext, order: String) -> Result<String, String> {
    ctx.schedule_activity("Ship", order).await
}

/// The application's own statements.
struct Orders {
    pool: PgPool,
    provider: PostgresProvider,
    place: Sql,
    status: Sql,
}

impl Orders {
    /// Places an order and starts what processes it. The runtime, in any process, is woken at the commit.
    async fn place(&self, id: i64, in_stock: bool) -> Outcome<()> {
        let mut transaction = self.pool.begin().await?;
        sqlx::query(&self.place).bind(id).execute(&mut *transaction).await?;
        let instance = format!("order-{id}");
        self.provider.start_orchestration_in(&mut transaction, &instance, "Process", None, &id.to_string()).await?;
        match in_stock {
            true => transaction.commit().await?,
            false => transaction.rollback().await?,
        }
        Ok(())
    }

    async fn status(&self, id: i64) -> Outcome<Option<String>> {
        Ok(sqlx::query_scalar(&self.status).bind(id).fetch_optional(&self.pool).await?)
    }
}

#[tokio::main]
async fn main() -> Outcome<()> {
    // Where the log goes is the application's choice; without one duroxide writes it to standard output.
    tracing_subscriber::fmt().with_env_filter(EnvFilter::from_default_env()).with_writer(std::io::stderr).init();
    let db = TestDb::new().await;
    let (pool, schema) = (PgPool::connect(db.url()).await?, db.schema());
    let create = schema.sql("create table {schema}.orders (id bigint primary key, status text not null)");
    sqlx::query(&create).execute(&pool).await?;

    // The provider on the application's own pool; only listening takes a connection more.
    let options = Options::default().schema(schema.name()).long_poll(LongPollConfig::enabled());
    let provider = PostgresProvider::from_pool(pool.clone(), options).await?;

    let (ship_pool, ship) = (pool.clone(), schema.sql("update {schema}.orders set status = 'shipped' where id = $1"));
    let ship = move |_: ActivityContext, order: String| {
        let (pool, ship) = (ship_pool.clone(), ship.clone());
        async move {
            let id: i64 = order.parse().map_err(|_| "no order")?;
            sqlx::query(&ship).bind(id).execute(&pool).await.map_err(|error| error.to_string())?;
            Ok(order)
        }
    };
    let activities = ActivityRegistry::builder().register("Ship", ship).build();
    let orchestrations = OrchestrationRegistry::builder().register("Process", process).build();
    let runtime = Runtime::start_with_store(Arc::new(provider.clone()), activities, orchestrations).await;

    let orders = Orders {
        pool,
        provider: provider.clone(),
        place: schema.sql("insert into {schema}.orders (id, status) values ($1, 'placed')"),
        status: schema.sql("select status from {schema}.orders where id = $1"),
    };
    orders.place(1, true).await?;
    orders.place(2, false).await?;
    provider.wait_for_completion("order-1", Duration::from_secs(30)).await?.ok_or("order 1 is not processed")?;
    println!("order 1 is {}", orders.status(1).await?.ok_or("order 1 is gone")?);
    let second = Client::new(Arc::new(provider)).get_orchestration_status("order-2").await?;
    if orders.status(2).await?.is_none() && second == OrchestrationStatus::NotFound {
        println!("order 2 is not there, and neither is its orchestration");
    }
    runtime.shutdown(None).await;
    Ok(())
}
