"""The pages: what people see in their browser. Server-rendered; every action is one of the operations."""
