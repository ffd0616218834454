"""The world that the tables of routes and flows begin with."""

from tests.repository.routes.world import make_saved_world, make_world_of_a_row

__all__ = ["make_saved_world", "make_world_of_a_row"]
