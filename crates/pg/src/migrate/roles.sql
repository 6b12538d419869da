-- The rights of a role that serves the schema: it reads and writes rows, uses sequences and calls functions, and can
-- neither create nor change nor drop anything. Applied as the owner of the schema; repeating it changes nothing.
do $rights$
begin
    if not exists (select from pg_catalog.pg_roles where rolname = {role_text}) then
        create role {role} nologin;
    end if;
    -- Usually every role may connect. The health check writes into a temporary table while the disk is full.
    if not has_database_privilege({role_text}, current_database(), 'connect')
        or not has_database_privilege({role_text}, current_database(), 'temporary')
    then
        execute format('grant connect, temporary on database %I to %I', current_database(), {role_text});
    end if;
end
$rights$;

revoke create on schema {schema} from {role};
grant usage on schema {schema} to {role};
grant select, insert, update, delete on all tables in schema {schema} to {role};
revoke truncate, references, trigger on all tables in schema {schema} from {role};
grant usage on all sequences in schema {schema} to {role};
grant execute on all functions in schema {schema} to {role};

-- What was applied is for the owner to say.
revoke insert, update, delete on {schema}.migration from {role};

-- What the owner creates from now on.
alter default privileges in schema {schema} grant select, insert, update, delete on tables to {role};
alter default privileges in schema {schema} grant usage on sequences to {role};
alter default privileges in schema {schema} grant execute on functions to {role};
