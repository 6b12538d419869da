-- Workers may claim by callable: the names of steps are found by it.
create index definition_callable on {schema}.definition (callable);
create index definition_name on {schema}.definition (name);
